"""CartPoleNoVel-v1: CartPole-v1 whose position and angle alone are observed, so that a policy needs memory.

RLlib calls it StatelessCartPole; rl-baselines3-zoo, whose name this is, keeps the two velocities as zeros.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.cartpole import CartPole
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "CartPoleNoVel-v1"

SEEN = [0, 2]  # of CartPole's observation


@register
class CartPoleNoVelocity(CartPole):
    """CartPole-v1 without its velocities: 2 numbers, 2 actions, reward 1 a step, 500 steps.

    Physics [B, 4] as CartPole's. Observation [B, 2]: position (m), angle (rad).
    """

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, sutton_barto_reward: bool = False
    ) -> None:
        super().__init__(num_envs, max_episode_steps, sutton_barto_reward)
        high = self.observation_space.high[SEEN]
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns float32 [B, 2]."""
        return tf.gather(physics, SEEN, axis=1)
