"""DeepSea in tensors: one sequence of actions among 2^N reaches the treasure, each step towards it costs.

Source: Osband et al., "Behaviour Suite for Reinforcement Learning", 2020, https://arxiv.org/abs/1908.03568,
appendix A.7 (bsuite/environments/deep_sea.py, deterministic form); first in Osband et al., "Deep Exploration
via Randomized Value Functions", 2019, https://arxiv.org/abs/1703.07608.
`rl/envs/deep_sea_gym.py` is the same game for Gymnasium, used for evaluation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.deep_sea_gym import MOVE_COST, check_size, right_actions
from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "DeepSea-v0"


class DeepSeaPhysics(NamedTuple):
    """Where the diver is; row 0 is the surface, row `size` the ground, where nothing is seen."""

    row: Tensor  # [B] int32
    column: Tensor  # [B] int32


@register
class DeepSea(GraphEnv):
    """Dive N steps down a grid of N x N, right each time: reward 0.99 for that, never found by chance.

    One of the 2 actions leads right, which costs 0.01 / N, the other one left, which costs nothing; which
    is which differs from cell to cell, fixed by `mapping_seed`. Right in the last column, which is reached in
    the last row alone, earns 1. Observation [B, size * size] float32: one-hot of the cell, in the end zeros.
    """

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, size: int = 10, mapping_seed: int = 42
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        check_size(size)
        self.size = size
        self.right = right_actions(size, mapping_seed).astype(np.int32).reshape(-1)  # [size * size]
        self.observation_space = spaces.Box(0.0, 1.0, (size * size,), np.float32)
        self.action_space = spaces.Discrete(2)

    def initial(self, seed: Tensor) -> DeepSeaPhysics:
        """Returns the diver at the surface, on the left."""
        zeros = tf.zeros([self.num_envs], tf.int32)
        return DeepSeaPhysics(zeros, zeros)

    def dynamics(
        self, physics: DeepSeaPhysics, action: Tensor, seed: Tensor
    ) -> tuple[DeepSeaPhysics, Tensor, Tensor]:
        """Moves one row down and one column right or left."""
        size, (row, column) = self.size, physics
        cell = tf.minimum(row, size - 1) * size + column  # an action at the ground is ignored
        right = tf.equal(tf.cast(action, tf.int32), tf.gather(tf.constant(self.right), cell))  # [B]
        treasure = tf.cast(right & tf.equal(column, size - 1), tf.float32)
        reward = treasure - tf.where(right, MOVE_COST / size, 0.0)  # [B]
        column = tf.clip_by_value(column + tf.where(right, 1, -1), 0, size - 1)
        return DeepSeaPhysics(row + 1, column), reward, row + 1 >= size

    def observe(self, physics: DeepSeaPhysics) -> Tensor:
        """Returns float32 [B, size * size]; a row beyond the last one is none of the cells."""
        return tf.one_hot(physics.row * self.size + physics.column, self.size * self.size)
