"""MountainCar-v0 in tensors: the physics of Gymnasium's `MountainCarEnv` in float32.

Source: Moore, "Efficient Memory-Based Learning for Robot Control", PhD thesis, 1990;
gymnasium/envs/classic_control/mountain_car.py.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "MountainCar-v0"

MIN_POSITION, MAX_POSITION = -1.2, 0.6
MAX_SPEED = 0.07
GRAVITY = 0.0025
FORCE = 0.001
GOAL_POSITION = 0.5


def roll(physics: Tensor, force: Tensor) -> tuple[Tensor, Tensor]:
    """Returns position and velocity, [B] each, a step after `physics` [B, 2] under `force` [B]."""
    position, velocity = tf.unstack(physics, axis=1)
    velocity = tf.clip_by_value(velocity + force - GRAVITY * tf.cos(3.0 * position), -MAX_SPEED, MAX_SPEED)
    position = tf.clip_by_value(position + velocity, MIN_POSITION, MAX_POSITION)
    at_left_wall = position <= MIN_POSITION
    return position, tf.where(at_left_wall, tf.maximum(velocity, 0.0), velocity)


@register
class MountainCar(GraphEnv):
    """Rock a weak car out of a valley: 2 numbers, 3 actions, reward -1 a step until the goal, 200 steps.

    Physics [B, 2] and observation alike: position, velocity.
    `goal_velocity`: least velocity at the goal, as in Gymnasium.
    """

    max_episode_steps = 200

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, goal_velocity: float = 0.0
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        low = np.array([MIN_POSITION, -MAX_SPEED], np.float32)
        high = np.array([MAX_POSITION, MAX_SPEED], np.float32)
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.action_space = spaces.Discrete(3)
        self.goal_velocity = goal_velocity

    def initial(self, seed: Tensor) -> Tensor:
        """Returns places near the bottom of the valley, in [-0.6, -0.4), at rest."""
        position = random.uniform(seed, [self.num_envs, 1], -0.6, -0.4)
        return tf.concat([position, tf.zeros_like(position)], axis=1)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pushes left by action 0, not at all by 1, right by 2."""
        position, velocity = roll(physics, (tf.cast(action, tf.float32) - 1.0) * FORCE)
        terminated = (position >= GOAL_POSITION) & (velocity >= self.goal_velocity)  # [B]
        return tf.stack([position, velocity], axis=1), -tf.ones_like(position), terminated

    def observe(self, physics: Tensor) -> Tensor:
        """Returns the physics itself, float32 [B, 2]."""
        return physics
