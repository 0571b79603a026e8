"""DeepSea for Gymnasium, id "DeepSea-v0": the rules of `rl/envs/graph/deep_sea.py` in numpy."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl.envs.board import draw
from rl.errors import UsageError

MOVE_COST = 0.01  # of all steps to the right together


class DeepSeaEnv(gymnasium.Env[np.ndarray, int]):
    """Dive down a grid of `size` x `size`; see `rl/envs/graph/deep_sea.py` for the source."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, render_mode: str | None = None, size: int = 10, mapping_seed: int = 42) -> None:
        check_size(size)
        self.render_mode = render_mode
        self.size, self.right = size, right_actions(size, mapping_seed)
        self.observation_space = spaces.Box(0.0, 1.0, (size * size,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.state = (0, 0)  # row and column

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Puts the diver at the surface, on the left."""
        super().reset(seed=seed)
        self.state = (0, 0)
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Moves one row down and one column right, where the action is that cell's, else left."""
        row, column = self.state
        right = int(action) == self.right[row, column]
        reward = float(right and column == self.size - 1) - (MOVE_COST / self.size if right else 0.0)
        column = min(max(column + (1 if right else -1), 0), self.size - 1)
        self.state = (row + 1, column)
        return self._observe(), reward, row + 1 == self.size, False, {}

    def render(self) -> np.ndarray:
        """Returns the grid as a picture, uint8 [height, width, 3]."""
        return draw(self._observe().reshape(self.size, self.size))

    def _observe(self) -> np.ndarray:
        grid = np.zeros((self.size, self.size), np.float32)
        if self.state[0] < self.size:
            grid[self.state] = 1.0
        return grid.reshape(-1)


def right_actions(size: int, mapping_seed: int) -> np.ndarray:
    """Returns which action leads right in each cell, [size, size] of 0 and 1, as bsuite draws them."""
    return np.random.RandomState(mapping_seed).binomial(1, 0.5, [size, size])


def check_size(size: int) -> None:
    """Raises UsageError where a grid of that size has no way to choose."""
    if size < 2:
        raise UsageError(f"DeepSea needs a size of at least 2, not {size}")


gymnasium.register("DeepSea-v0", entry_point=DeepSeaEnv)
