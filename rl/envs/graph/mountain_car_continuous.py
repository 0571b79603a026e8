"""MountainCarContinuous-v0 in tensors: the physics of Gymnasium's `Continuous_MountainCarEnv` in float32.

Source: gymnasium/envs/classic_control/continuous_mountain_car.py. Deviation: Gymnasium charges for the action
as it is given; here actions are clipped to [-1, 1] first, as everywhere at the environments' edge.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.mountain_car import MountainCar, roll
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "MountainCarContinuous-v0"

POWER = 0.0015
GOAL_POSITION = 0.45


@register
class MountainCarContinuous(MountainCar):
    """Rock a weak car out of a valley: 2 numbers, 1 force, reward 100 at the goal less effort, 999 steps.

    Physics [B, 2] and observation alike: position, velocity.
    `goal_velocity`: least velocity at the goal, as in Gymnasium.
    """

    max_episode_steps = 999

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, goal_velocity: float = 0.0
    ) -> None:
        super().__init__(num_envs, max_episode_steps, goal_velocity)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pushes by the action [B, 1] times 0.0015; each step costs a tenth of the action's square."""
        force = action[:, 0]  # [B]
        position, velocity = roll(physics, force * POWER)
        terminated = (position >= GOAL_POSITION) & (velocity >= self.goal_velocity)  # [B]
        reward = 100.0 * tf.cast(terminated, tf.float32) - 0.1 * force * force  # [B]
        return tf.stack([position, velocity], axis=1), reward, terminated
