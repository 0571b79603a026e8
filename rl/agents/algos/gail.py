"""GAIL: generative adversarial imitation learning, PPO with a reward for looking like the data.

Ho and Ermon 2016, "Generative adversarial imitation learning", https://arxiv.org/abs/1606.03476
(algorithm 1): a discriminator D learns to tell the policy's steps (s, a) from the data's by its
cross-entropy, and the policy minimises log D(s, a), where D is the probability that a step is the policy's
own. The environment's reward is not looked at. With f the discriminator's logit for the data, the reward is
-log D = log(1 + exp f(s, a)).

Deviations from the paper:

1. The policy takes PPO's steps (`rl/agents/algos/ppo.py`), the paper's those of TRPO.
2. The discriminator makes `discriminator_updates` steps on batches of a rollout, not one on all of it.
3. Actions of a Box are clipped to its bounds before the discriminator sees them, as those in recorded data
    are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.ppo import PPO
from rl.agents.algos.registry import register
from rl.hparams.gail import GAILHParams
from rl.models.continuous import Critic, actions_of
from rl.ops import loops, random
from rl.ops.nests import flatten_time, without_last
from rl.ops.policy import masked_mean
from rl.ops.trajectories import take
from rl.types import Loss, Nest, Tensor, Trajectory, Update


class Told(NamedTuple):
    """Steps of the policy and of the data, labelled."""

    observation: Nest  # [N, ...]
    code: Tensor  # [N, K] of actions
    of_data: Tensor  # [N] float32: 1 where a step is of the data, 0 where the policy's
    mask: Tensor  # [N]


@register
class GAIL(PPO):
    """Imitation learning by a discriminator of rollouts and data: discrete and bounded continuous actions."""

    hparams: GAILHParams
    hparams_type = GAILHParams
    action_spaces = (spaces.Discrete, spaces.Box)
    recurrent = False  # the discriminator sees single steps

    def build(self) -> None:
        super().build()
        self.actions = actions_of(self.action_space, self.hparams.algo)
        size, initializers = self.actions.size, self.initializers
        critic = Critic(self.hparams, self.encoder, size, initializers, name="discriminator")
        self.discriminator = self.add_network("discriminator", critic)
        variables = self.discriminator.trainable_variables
        self.add_optimizer("discriminator", variables, self.hparams.discriminator_lr)
        self.demonstrations: Any = None  # a memory; needed to learn, not to act

    def take_demonstrations(self, memory: Any) -> None:
        self.demonstrations = memory

    def logit(self, observation: Nest, code: Tensor) -> Tensor:
        """Returns the discriminator's logit that a step is of the data and not the policy's, [N]."""
        return self.discriminator(observation, code)[0, :, 0]

    def discriminator_loss(self, batch: Told, seed: Tensor) -> Loss:
        """Returns the discriminator's cross-entropy, for both kinds of steps."""
        logit = self.logit(batch.observation, batch.code)
        loss = tf.nn.softplus(logit) - batch.of_data * logit  # -log(1 - D) for the data, -log D for others
        right = tf.cast(tf.equal(logit > 0.0, batch.of_data > 0.0), tf.float32)
        return loss * batch.mask, {"told_apart": masked_mean(right, batch.mask)}, None

    def reward(self, trajectory: Trajectory) -> Tensor:
        """Returns the discriminator's reward, which replaces the environment's, [T, B]."""
        code = self.actions.clipped_code(flatten_time(trajectory.action))
        logit = self.logit(flatten_time(without_last(trajectory.observation)), code)
        return tf.nn.softplus(tf.reshape(logit, trajectory.mask.shape)) * trajectory.mask

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Updates of the discriminator, then PPO's for the rewards that it gives."""
        discriminator_seed, policy_seed = random.split(seed, 2)
        played = without_last(batch.observation), batch.action, batch.mask
        observation, action, mask = flatten_time(played)
        size = self.hparams.batch_size

        def one_update(i: Tensor) -> dict[str, Tensor]:
            rows_seed, data_seed, step_seed = random.split(random.fold_in(discriminator_seed, i), 3)
            rows = random.randint(rows_seed, [size], mask.shape[0])
            own = take((observation, action, mask), rows)
            data = self.demonstrations.sample(data_seed, tf.constant(0, tf.int64))
            shown = data.observation, data.action, data.mask
            seen, acted, counts = tf.nest.map_structure(lambda x, y: tf.concat([x, y], 0), own, shown)
            of_data = tf.concat([tf.zeros([size]), tf.ones([size])], 0)
            told = Told(seen, self.actions.clipped_code(acted), of_data, counts)
            return self.gradient_step(told, step_seed, "discriminator", self.discriminator_loss).metrics

        told, _ = loops.repeat(self.hparams.discriminator_updates, one_update)
        reward = tf.stop_gradient(self.reward(batch))
        update = super().update(batch._replace(reward=reward), policy_seed)
        kept = {"discriminator_loss": told["loss"], "told_apart": told["told_apart"]}
        kept["discriminator_grad_norm"] = told["grad_norm"]
        kept["imitation_reward"] = masked_mean(reward, batch.mask)
        return update._replace(metrics=update.metrics | kept)
