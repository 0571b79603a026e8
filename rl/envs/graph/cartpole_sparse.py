"""CartPoleSparse-v0: CartPole of 200 steps whose whole reward is paid at the end.

RLlib calls it SparseCartPole. `rl/envs/cartpole_sparse_gym.py` is the same of Gymnasium's environment.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.envs.graph.cartpole import CartPole
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "CartPoleSparse-v0"

STEPS = 200  # at most


class Balanced(NamedTuple):
    """B poles."""

    pole: Tensor  # [B, 4] as CartPole's physics
    steps: Tensor  # [B] int32, since the reset


@register
class CartPoleSparse(CartPole):
    """Balance a pole on a cart: 4 numbers, 2 actions, at the end as much reward as steps, at most 200.

    The 200th step is an end like a fall: nothing follows, and the steps are paid.
    """

    max_episode_steps = None

    def __init__(self, num_envs: int, max_episode_steps: int | None = None) -> None:
        super().__init__(num_envs, max_episode_steps)

    def initial(self, seed: Tensor) -> Balanced:
        """Draws poles as CartPole's."""
        return Balanced(super().initial(seed), tf.zeros([self.num_envs], tf.int32))

    def dynamics(self, physics: Balanced, action: Tensor, seed: Tensor) -> tuple[Balanced, Tensor, Tensor]:
        """Makes CartPole's step; terminated where it is one's last."""
        pole, _, fallen = super().dynamics(physics.pole, action, seed)
        steps = physics.steps + 1
        over = fallen | (steps >= STEPS)
        return Balanced(pole, steps), tf.where(over, tf.cast(steps, tf.float32), 0.0), over

    def observe(self, physics: Balanced) -> Tensor:
        """Returns the pole's four numbers, float32 [B, 4]."""
        return physics.pole
