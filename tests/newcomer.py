"""The module of a user with an algorithm of their own, which tests write into a folder."""

NEWCOMER = '''
"""Follows the mean reward of each action, whatever is observed: a user's own algorithm."""

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.hparams.hparams import HParams
from rl.hparams.registry import register as register_hparams
from rl.models.networks import QNetwork
from rl.ops import value
from rl.types import PolicyOutput


class {name}HParams(HParams):
    algo: str = "{name}"
    act_select: str = "uniform_random"
    preference: float = 0.5


@register_hparams
def {name}_identity() -> {name}HParams:
    """The newcomer on Identity-v0."""
    return {name}HParams(env="Identity-v0", train_steps=512, num_envs=4, rollout_length=16)


@register
class Newcomer(Agent):
    """The newcomer's first line."""

    experience = "rollout"
    action_spaces = (spaces.Discrete,)

    def build(self):
        actions = int(self.action_space.n)
        network = QNetwork(self.hparams, self.encoder, actions, self.initializers)
        self.network = self.add_network("network", network)
        self.add_optimizer("network", self.network.trainable_variables)

    def updates_per_iteration(self):
        return 1

    def policy(self, observation, recurrent_state, seed, training):
        return PolicyOutput(q_values=self.network(observation))

    def loss(self, batch, seed):
        observation = tf.reshape(batch.observation[:-1], [-1, 4])
        chosen = value.select(self.network(observation), tf.reshape(batch.action, [-1]))
        error = tf.reshape(batch.reward, [-1]) - chosen
        return tf.square(error) * tf.reshape(batch.mask, [-1]), {{}}, None
'''
