"""Acrobot-v1 in tensors: the physics of Gymnasium's `AcrobotEnv` (the book's equations, rk4) in float32.

Source: Sutton, "Generalization in Reinforcement Learning: Successful Examples Using Sparse Coarse Coding",
1996; gymnasium/envs/classic_control/acrobot.py. Both links: mass 1 kg, length 1 m, centre of mass at 0.5 m,
moment of inertia 1 kg m^2; those ones are left out of the formulas below.
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

ENV_ID = "Acrobot-v1"

DT = 0.2  # s between two states
GRAVITY = 9.8  # m/s^2
MAX_SPEED_1 = 4 * math.pi  # rad/s
MAX_SPEED_2 = 9 * math.pi  # rad/s

Angles = tuple[Tensor, Tensor, Tensor, Tensor]  # theta_1, theta_2, their speeds, [B] each


def _derivative(state: Angles, torque: Tensor) -> Angles:
    """Rates of change of the four numbers under `torque` [B] on the joint between the links."""
    theta_1, theta_2, speed_1, speed_2 = state
    cos_2, sin_2 = tf.cos(theta_2), tf.sin(theta_2)
    d_1 = 3.5 + cos_2
    d_2 = 1.25 + 0.5 * cos_2
    # cos(x - pi/2) = sin(x)
    phi_2 = 0.5 * GRAVITY * tf.sin(theta_1 + theta_2)
    phi_1 = -0.5 * speed_2 * (speed_2 + 2.0 * speed_1) * sin_2 + 1.5 * GRAVITY * tf.sin(theta_1) + phi_2
    acceleration_2 = (torque + d_2 / d_1 * phi_1 - 0.5 * speed_1 * speed_1 * sin_2 - phi_2) / (
        1.25 - d_2 * d_2 / d_1
    )
    acceleration_1 = -(d_2 * acceleration_2 + phi_1) / d_1
    return speed_1, speed_2, acceleration_1, acceleration_2


def _rk4(state: Angles, torque: Tensor) -> Angles:
    """Makes one step of DT of the classical fourth-order Runge-Kutta method, the torque held constant."""

    def moved(slope: Angles, time: float) -> Angles:
        s, k = state, slope
        return s[0] + time * k[0], s[1] + time * k[1], s[2] + time * k[2], s[3] + time * k[3]

    k_1 = _derivative(state, torque)
    k_2 = _derivative(moved(k_1, DT / 2), torque)
    k_3 = _derivative(moved(k_2, DT / 2), torque)
    k_4 = _derivative(moved(k_3, DT), torque)
    mean = [(a + 2.0 * (b + c) + d) / 6.0 for a, b, c, d in zip(k_1, k_2, k_3, k_4, strict=True)]
    return moved((mean[0], mean[1], mean[2], mean[3]), DT)


def _wrap(angle: Tensor) -> Tensor:
    return angle - 2 * math.pi * tf.round(angle / (2 * math.pi))


@register
class Acrobot(GraphEnv):
    """Swing a two-link arm above the bar: 6 numbers, 3 torques, reward -1 a step until the goal, 500 steps.

    Physics [B, 4]: angle of the first link from hanging down, of the second against the first (rad, in
    [-pi, pi]), and their speeds (rad/s). Observation [B, 6]: cosine and sine of both angles, both speeds.
    """

    max_episode_steps = 500

    def __init__(self, num_envs: int, max_episode_steps: int | None = None) -> None:
        super().__init__(num_envs, max_episode_steps)
        high = np.array([1.0, 1.0, 1.0, 1.0, MAX_SPEED_1, MAX_SPEED_2], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(3)

    def initial(self, seed: Tensor) -> Tensor:
        """Draws four numbers, each uniform in [-0.1, 0.1)."""
        return random.uniform(seed, [self.num_envs, 4], -0.1, 0.1)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Applies the torque action - 1 (N m) for 0.2 s; terminated, with reward 0, once the tip is 1 m
        above the bar."""
        torque = tf.cast(action, tf.float32) - 1.0  # [B]
        theta_1, theta_2, speed_1, speed_2 = _rk4(tuple(tf.unstack(physics, axis=1)), torque)
        speed_1 = tf.clip_by_value(speed_1, -MAX_SPEED_1, MAX_SPEED_1)
        speed_2 = tf.clip_by_value(speed_2, -MAX_SPEED_2, MAX_SPEED_2)
        terminated = -tf.cos(theta_1) - tf.cos(theta_1 + theta_2) > 1.0  # [B]
        reward = tf.cast(terminated, tf.float32) - 1.0  # [B]
        return tf.stack([_wrap(theta_1), _wrap(theta_2), speed_1, speed_2], axis=1), reward, terminated

    def observe(self, physics: Tensor) -> Tensor:
        """Returns float32 [B, 6]."""
        theta_1, theta_2, speed_1, speed_2 = tf.unstack(physics, axis=1)
        return tf.stack(
            [tf.cos(theta_1), tf.sin(theta_1), tf.cos(theta_2), tf.sin(theta_2), speed_1, speed_2], axis=1
        )
