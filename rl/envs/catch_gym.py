"""Catch for Gymnasium, id "Catch-v0": the rules of `rl/envs/graph/catch.py` in numpy."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl.envs.board import draw


class CatchEnv(gymnasium.Env[np.ndarray, int]):
    """Catch a falling ball on a board of `rows` x `columns`; see `rl/envs/graph/catch.py` for the source."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, render_mode: str | None = None, rows: int = 10, columns: int = 5) -> None:
        self.render_mode = render_mode
        self.rows, self.columns = rows, columns
        self.observation_space = spaces.Box(0.0, 1.0, (rows, columns), np.float32)
        self.action_space = spaces.Discrete(3)
        self.state = (0, 0, columns // 2)  # row and column of the ball, column of the paddle

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Puts the ball in a random column of the top row, the paddle in the middle of the bottom one."""
        super().reset(seed=seed)
        self.state = (0, int(self.np_random.integers(self.columns)), self.columns // 2)
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Moves the paddle left by action 0, not at all by 1, right by 2; the ball falls by one row."""
        row, column, paddle = self.state
        row, paddle = row + 1, min(max(paddle + int(action) - 1, 0), self.columns - 1)
        self.state = (row, column, paddle)
        terminated = row >= self.rows - 1
        reward = (1.0 if paddle == column else -1.0) if terminated else 0.0
        return self._observe(), reward, terminated, False, {}

    def render(self) -> np.ndarray:
        """Returns the board as a picture, uint8 [height, width, 3]."""
        return draw(self._observe())

    def _observe(self) -> np.ndarray:
        row, column, paddle = self.state
        board = np.zeros((self.rows, self.columns), np.float32)
        board[row, column] = board[-1, paddle] = 1.0
        return board


gymnasium.register("Catch-v0", entry_point=CatchEnv)
