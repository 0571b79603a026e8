"""PendulumNoVel-v1: the angle of Pendulum-v1 alone is observed, so that a policy needs memory.

The name is rl-baselines3-zoo's, which keeps the velocity as a zero.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.pendulum import Pendulum
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "PendulumNoVel-v1"


@register
class PendulumNoVelocity(Pendulum):
    """Pendulum-v1 without its velocity: 2 numbers, 1 torque, reward 0 at best and -16.3 at worst, 200 steps.

    Physics [B, 2] as Pendulum's. Observation [B, 2]: cosine and sine of the angle.
    """

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, g: float = 10.0) -> None:
        super().__init__(num_envs, max_episode_steps, g)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns float32 [B, 2]."""
        theta = physics[:, 0]
        return tf.stack([tf.cos(theta), tf.sin(theta)], axis=1)
