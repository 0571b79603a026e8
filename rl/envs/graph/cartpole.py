"""CartPole-v1 in tensors: the physics of Gymnasium's `CartPoleEnv` (Euler integrator) in float32.

Source: Barto, Sutton and Anderson, "Neuronlike Adaptive Elements That Can Solve Difficult Learning Control
Problem", 1983; gymnasium/envs/classic_control/cartpole.py.
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

ENV_ID = "CartPole-v1"

GRAVITY = 9.8  # m/s^2
TOTAL_MASS = 1.1  # kg, of which the pole has 0.1
POLE_MASS = 0.1  # kg
HALF_LENGTH = 0.5  # m
FORCE = 10.0  # N
TAU = 0.02  # s between two states
MAX_X = 2.4  # m
MAX_THETA = 12 * 2 * math.pi / 360  # rad


@register
class CartPole(GraphEnv):
    """Balance a pole on a cart: 4 numbers, 2 actions, reward 1 a step, 500 steps.

    Physics [B, 4] and observation alike: position (m), velocity (m/s), angle (rad), angular velocity (rad/s).
    `sutton_barto_reward`: reward 0 a step and -1 at the fall instead, as in Gymnasium.
    """

    max_episode_steps: int | None = 500

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, sutton_barto_reward: bool = False
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        high = np.array([2 * MAX_X, np.inf, 2 * MAX_THETA, np.inf], np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(2)
        self.sutton_barto_reward = sutton_barto_reward

    def initial(self, seed: Tensor) -> Tensor:
        """Draws four numbers, each uniform in [-0.05, 0.05)."""
        return random.uniform(seed, [self.num_envs, 4], -0.05, 0.05)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Makes one Euler step of 0.02 s; terminated where the pole or the cart is out of its range."""
        x, x_dot, theta, theta_dot = tf.unstack(physics, axis=1)  # [B] each
        force = tf.where(tf.equal(action, 1), FORCE, -FORCE)
        cos, sin = tf.cos(theta), tf.sin(theta)
        push = (force + POLE_MASS * HALF_LENGTH * theta_dot * theta_dot * sin) / TOTAL_MASS
        theta_acc = (GRAVITY * sin - cos * push) / (
            HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos * cos / TOTAL_MASS)
        )
        x_acc = push - POLE_MASS * HALF_LENGTH * theta_acc * cos / TOTAL_MASS
        x, x_dot = x + TAU * x_dot, x_dot + TAU * x_acc
        theta, theta_dot = theta + TAU * theta_dot, theta_dot + TAU * theta_acc
        terminated = (tf.abs(x) > MAX_X) | (tf.abs(theta) > MAX_THETA)  # [B]
        reward = -tf.cast(terminated, tf.float32) if self.sutton_barto_reward else tf.ones_like(x)
        return tf.stack([x, x_dot, theta, theta_dot], axis=1), reward, terminated

    def observe(self, physics: Tensor) -> Tensor:
        """Returns the physics itself, float32 [B, 4]."""
        return physics
