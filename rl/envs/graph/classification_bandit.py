"""ClassificationBandit: rows of a table whose class is to be named, told only whether it was right."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.types import Nest, Tensor

ENV_ID = "ClassificationBandit-v0"


@register
class ClassificationBandit(GraphEnv):
    """Name the class of a row of a table: reward 1 if right, else 0; one step.

    Physics [B] int32: the row, drawn uniformly. The table is of a file or, without one, synthetic: 500 rows
    of 8 numbers in 4 classes, normal around a centre of each. Every step terminates.

    Args:
        data: an .npz file with `x` [rows, d], numbers, and `y` [rows], classes from 0; empty: synthetic.
        seed: of the synthetic table.

    Raises:
        UsageError: the file cannot be read, or holds something else.
    """

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, data: str = "", seed: int = 0
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.x, self.y = read(data) if data else synthetic(seed)
        self.observation_space = spaces.Box(-np.inf, np.inf, self.x.shape[1:], np.float32)
        self.action_space = spaces.Discrete(int(self.y.max()) + 1)

    def initial(self, seed: Tensor) -> Tensor:
        """Draws rows."""
        return random.randint(seed, [self.num_envs], len(self.y))

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pays for the right class."""
        right = tf.equal(tf.gather(self.y, physics), tf.cast(action, tf.int32))
        return physics, tf.cast(right, tf.float32), tf.ones([self.num_envs], tf.bool)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns the row's numbers, [B, d]."""
        return tf.gather(self.x, physics)

    def regret(self, observation: Nest, action: Nest, reward: Tensor) -> Tensor:
        """Returns 1 - reward, of its shape: the right class pays 1."""
        return 1.0 - reward


def read(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns float32 [rows, d] and int32 [rows] of an .npz file.

    Raises:
        UsageError: it cannot be read, or holds something else.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            x, y = file["x"], file["y"]
    except (OSError, KeyError, ValueError) as error:
        raise UsageError(f"{ENV_ID}: data={path}: needs an .npz file with x and y ({error})") from error
    if x.ndim != 2 or y.shape != x.shape[:1] or not len(y) or y.dtype.kind not in "iu" or y.min() < 0:
        raise UsageError(f"{ENV_ID}: data={path}: needs numbers x [rows, d] and classes y [rows], from 0")
    return x.astype(np.float32), y.astype(np.int32)


def synthetic(seed: int, rows: int = 500, size: int = 8, classes: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Returns float32 [rows, size] around a centre of each class, and the classes, int32 [rows]."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(size=(classes, size))
    y = generator.integers(0, classes, rows)
    y[:classes] = np.arange(classes)
    x = centres[y] + 0.5 * generator.normal(size=(rows, size))
    return x.astype(np.float32), y.astype(np.int32)
