"""Catch in tensors: a ball falls down a board, the paddle at the bottom must be under it.

Source: Mnih et al., "Recurrent Models of Visual Attention", 2014, in the form of bsuite (Osband et al.,
"Behaviour Suite for Reinforcement Learning", 2020, bsuite/environments/catch.py), which is also EnvPool's
Catch-v0.
`rl/envs/catch_gym.py` is the same game for Gymnasium, used for evaluation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "Catch-v0"


class CatchPhysics(NamedTuple):
    """Places on the board; row 0 is the top. The paddle is always in the bottom row."""

    ball_row: Tensor  # [B] int32
    ball_column: Tensor  # [B] int32
    paddle_column: Tensor  # [B] int32


@register
class Catch(GraphEnv):
    """Catch a falling ball on a 10 x 5 board: 3 actions, reward 1 or -1 when the ball is down, after 9 steps.

    Observation [B, rows, columns] float32: 1 where the ball or the paddle is, else 0.
    """

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, rows: int = 10, columns: int = 5
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.rows, self.columns = rows, columns
        self.observation_space = spaces.Box(0.0, 1.0, (rows, columns), np.float32)
        self.action_space = spaces.Discrete(3)

    def initial(self, seed: Tensor) -> CatchPhysics:
        """Returns the ball in a random column of the top row, the paddle in the middle."""
        column = random.randint(seed, [self.num_envs], self.columns)
        return CatchPhysics(tf.zeros_like(column), column, tf.fill([self.num_envs], self.columns // 2))

    def dynamics(
        self, physics: CatchPhysics, action: Tensor, seed: Tensor
    ) -> tuple[CatchPhysics, Tensor, Tensor]:
        """Moves the paddle left by action 0, not at all by 1, right by 2; the ball falls by one row."""
        paddle = physics.paddle_column + tf.cast(action, tf.int32) - 1
        paddle = tf.clip_by_value(paddle, 0, self.columns - 1)
        row = physics.ball_row + 1
        terminated = row >= self.rows - 1  # [B]
        outcome = tf.where(tf.equal(paddle, physics.ball_column), 1.0, -1.0)
        reward = tf.where(terminated, outcome, 0.0)  # [B]
        return CatchPhysics(row, physics.ball_column, paddle), reward, terminated

    def observe(self, physics: CatchPhysics) -> Tensor:
        """Returns float32 [B, rows, columns]."""
        cells = self.rows * self.columns
        ball = tf.one_hot(physics.ball_row * self.columns + physics.ball_column, cells)
        paddle = tf.one_hot((self.rows - 1) * self.columns + physics.paddle_column, cells)
        return tf.reshape(tf.maximum(ball, paddle), [self.num_envs, self.rows, self.columns])
