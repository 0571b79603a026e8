"""The smallest environment of agents who work together."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.multi_agent import MultiAgentEnv
from rl.ops import random

ENV_ID = "TinyTeam-v0"  # the name under which tests register it
NUMBERS = 4
GOOD = {  # returns, of 20 at best, by how agents are seen and kind of the actions
    "rows_and_state": {spaces.Discrete: 18.0, spaces.Box: 19.0},
    "joint": {spaces.MultiDiscrete: 18.0, spaces.Box: 19.0},
}


class TinyTeam(MultiAgentEnv):
    """Each of two agents names the number that it is shown: 0.5 for each, 20 steps, 20 for the team at best.

    `actions`: "discrete" (5 for the team at random); "masked", where the right action and the one after it
    are legal, no other; "box", where -1 .. 1 stand for the numbers.
    """

    agent_names = ("left", "right")
    max_episode_steps = 20

    def __init__(self, num_envs, max_episode_steps=None, actions="discrete"):
        super().__init__(num_envs, max_episode_steps)
        self.actions = actions
        row = spaces.Box(0.0, 1.0, (NUMBERS,), np.float32)
        masked = spaces.Dict({"observation": row, "action_mask": spaces.MultiBinary(NUMBERS)})
        self.observation_space = masked if actions == "masked" else row
        box = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = box if actions == "box" else spaces.Discrete(NUMBERS)

    def initial(self, seed):
        return random.randint(seed, [self.num_envs, 2], NUMBERS)

    def dynamics(self, physics, action, seed):
        if self.actions == "box":
            reward = 1.0 - tf.square(action[..., 0] - (tf.cast(physics, tf.float32) / 1.5 - 1.0))
        else:
            reward = tf.cast(tf.equal(tf.cast(action, tf.int32), physics), tf.float32)
        return self.initial(seed), 0.5 * reward, tf.zeros([self.num_envs, 2], tf.bool)

    def observe(self, physics):
        row = tf.one_hot(physics, NUMBERS)
        if self.actions != "masked":
            return row
        mask = row + tf.one_hot((physics + 1) % NUMBERS, NUMBERS)
        return {"observation": row, "action_mask": tf.cast(mask, tf.int32)}


def settings(hparams_type, kind):
    """Overrides by which an algorithm of these hparams is to learn it, whose actions are of that kind."""
    made = {"env": ENV_ID, "gamma": 0.0, "train_steps": 4_000, "lr": 2e-3, "model.hidden": (32, 32)}
    if kind is spaces.Box:
        made |= {"env_kwargs": {"actions": "box"}, "train_steps": 8_000}
    replay = {"min_replay_size": 100, "random_steps": 100, "batch_size": 64}
    if hparams_type.model_fields["memory"].default == "rollout":
        made |= {
            "train_steps": 4 * made["train_steps"],
            "rollout_length": 32,
            "epochs": 4,
            "entropy_coef": 0.0,
        }
    return made | {name: each for name, each in replay.items() if name in hparams_type.model_fields}
