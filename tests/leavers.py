"""An in-graph environment whose agents leave one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.multi_agent import MultiAgentEnv

ENV_ID = "Leavers-v0"  # the name under which tests register it
PAY = (1.0, 2.0, 3.0)  # of agent i for each of its i + 1 steps: 1 + 4 + 9 = 14 for the team, in 3 steps


class Leavers(MultiAgentEnv):
    """Agent i leaves after i + 1 steps and is paid i + 1 for each, and 100 for each step that it is gone."""

    agent_names = ("first", "second", "third")

    def __init__(self, num_envs: int, max_episode_steps: int | None = None):
        super().__init__(num_envs, max_episode_steps)
        self.observation_space = spaces.Box(0.0, 9.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def initial(self, seed: tf.Tensor) -> tf.Tensor:
        return tf.zeros([self.num_envs])

    def dynamics(self, physics: tf.Tensor, action: tf.Tensor, seed: tf.Tensor) -> Any:
        last = tf.constant(PAY)
        steps = physics[:, None] + 1.0
        return physics + 1.0, tf.where(steps > last, 100.0, last), steps >= last

    def observe(self, physics: tf.Tensor) -> tf.Tensor:
        return tf.repeat(physics[:, None, None], 3, 1)


class Alike(Leavers):
    """All are paid 10 for each step, and what an agent is paid after it has left is the team's alone."""

    shared_reward = True

    def dynamics(self, physics: tf.Tensor, action: tf.Tensor, seed: tf.Tensor) -> Any:
        physics, reward, gone = super().dynamics(physics, action, seed)
        return physics, tf.fill(reward.shape, 10.0), gone
