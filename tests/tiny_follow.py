"""The smallest environment with continuous actions, in-graph and for Gymnasium."""

from __future__ import annotations

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.ops import random

ENV_ID = "Follow-v0"  # the name under which tests register both


class Follow(GraphEnv):
    """Name the number that is shown, between -1 and 1: reward 1 - error^2, 20 steps."""

    max_episode_steps = 20
    observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def initial(self, seed):
        return random.uniform(seed, [self.num_envs], -1.0, 1.0)

    def dynamics(self, physics, action, seed):
        reward = 1.0 - tf.square(action[:, 0] - physics)
        return self.initial(seed), reward, tf.zeros([self.num_envs], tf.bool)

    def observe(self, physics):
        return physics[:, None]


class FollowGym(gymnasium.Env):
    """The same for Gymnasium."""

    observation_space, action_space = Follow.observation_space, Follow.action_space

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.shown = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
        return self.shown, {}

    def step(self, action):
        reward = 1.0 - float((action[0] - self.shown[0]) ** 2)
        return self.reset()[0], reward, False, False, {}
