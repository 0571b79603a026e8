"""The smallest environment of agents who have to remember."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.multi_agent import MultiAgentEnv
from rl.ops import random

ENV_ID = "TinyRecall-v0"  # the name under which tests register it
CUES, STEPS = 3, 3


class TinyRecall(MultiAgentEnv):
    """Each of two agents is shown a number in the first of three steps, and names it in the last one: 0.5 for
    each, 1 for the team at best, 1/3 for one that does not remember.

    Observations: the number, one-hot in the first step and else zeros; whether this is the last step.
    """

    agent_names = ("left", "right")

    def __init__(self, num_envs, max_episode_steps=None):
        super().__init__(num_envs, max_episode_steps)
        self.observation_space = spaces.Box(0.0, 1.0, (CUES + 1,), np.float32)
        self.action_space = spaces.Discrete(CUES)

    def initial(self, seed):
        return random.randint(seed, [self.num_envs, 2], CUES), tf.zeros([self.num_envs], tf.int32)

    def dynamics(self, physics, action, seed):
        cue, step = physics
        last = step == STEPS - 1  # [B]
        right = tf.cast(tf.equal(tf.cast(action, tf.int32), cue), tf.float32)  # [B, 2]
        reward = tf.where(last[:, None], 0.5 * right, 0.0)
        return (cue, step + 1), reward, tf.stack([last, last], 1)

    def observe(self, physics):
        cue, step = physics
        shown = tf.where((step == 0)[:, None, None], tf.one_hot(cue, CUES), 0.0)  # [B, 2, CUES]
        last = tf.cast(step == STEPS - 1, tf.float32)[:, None, None]  # [B, 1, 1]
        return tf.concat([shown, tf.tile(last, [1, 2, 1])], -1)
