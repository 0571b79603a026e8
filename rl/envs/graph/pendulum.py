"""Pendulum-v1 in tensors: the physics of Gymnasium's `PendulumEnv` in float32.

Source: gymnasium/envs/classic_control/pendulum.py. The angle is kept in [-pi, pi), where Gymnasium lets it
grow: only its sine, cosine and normalised value are ever used, and float32 stays precise.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "Pendulum-v1"

MAX_SPEED = 8.0  # rad/s
MAX_TORQUE = 2.0  # N m
DT = 0.05  # s between two states; length 1 m


@register
class Pendulum(GraphEnv):
    """Swing a pendulum up and hold it: 3 numbers, 1 torque, reward 0 at best and -16.3 at worst, 200 steps.

    Physics [B, 2]: angle (rad, 0 is upright), angular velocity (rad/s).
    Observation [B, 3]: cosine and sine of the angle, angular velocity.
    `g`: gravity in m/s^2, as in Gymnasium.
    """

    max_episode_steps = 200

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, g: float = 10.0) -> None:
        super().__init__(num_envs, max_episode_steps)
        high = np.array([1.0, 1.0, MAX_SPEED], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32)
        self.gravity = g

    def initial(self, seed: Tensor) -> Tensor:
        """Draws the angle uniform in [-pi, pi), velocity uniform in [-1, 1)."""
        return random.uniform(seed, [self.num_envs, 2], -1.0, 1.0) * [math.pi, 1.0]

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Makes one semi-implicit Euler step of 0.05 s; the reward is of the state before it; never
        terminated."""
        return self.swung(physics, action, 1.0)

    def swung(self, physics: Tensor, action: Tensor, mass: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
        """Returns what `dynamics` does, of pendulums of these masses in kg, [B] or one for all."""
        theta, speed = tf.unstack(physics, axis=1)  # [B] each
        torque = action[:, 0]  # [B]
        reward = -(theta * theta + 0.1 * speed * speed + 0.001 * torque * torque)  # [B]
        speed += (1.5 * self.gravity * tf.sin(theta) + 3.0 * torque / mass) * DT
        speed = tf.clip_by_value(speed, -MAX_SPEED, MAX_SPEED)
        theta += speed * DT
        theta -= 2 * math.pi * tf.floor((theta + math.pi) / (2 * math.pi))
        return tf.stack([theta, speed], axis=1), reward, tf.zeros([self.num_envs], tf.bool)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns float32 [B, 3]."""
        theta, speed = tf.unstack(physics, axis=1)
        return tf.stack([tf.cos(theta), tf.sin(theta), speed], axis=1)
