"""Identity for Gymnasium, id "Identity-v0": the rules of `rl/envs/graph/identity.py` in numpy."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl.envs.board import draw


class IdentityEnv(gymnasium.Env[np.ndarray, Any]):
    """Name the random state that is shown, 1 of `num_states` or a number; see `rl/envs/graph/identity.py`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, render_mode: str | None = None, num_states: int = 4, continuous: bool = False) -> None:
        self.render_mode = render_mode
        self.num_states, self.continuous = num_states, continuous
        self.observation_space, self.action_space = spaces_of(num_states, continuous)
        self.state: float = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draws a state."""
        super().reset(seed=seed)
        return self._next(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Rewards the state's name with 1; the next state is drawn whatever the action."""
        missed = float(action[0] - self.state) ** 2 if self.continuous else float(action != self.state)
        return self._next(), 1.0 - missed, False, False, {}

    def render(self) -> np.ndarray:
        """Returns the states as a row of cells, the present one lit, uint8 [height, width, 3]; a number as
        one cell, the brighter the larger."""
        shown = (self._observe() + 1.0) / 2.0 if self.continuous else self._observe()
        return draw(shown[None])

    def _next(self) -> np.ndarray:
        if self.continuous:
            self.state = float(np.float32(self.np_random.uniform(-1.0, 1.0)))
        else:
            self.state = int(self.np_random.integers(self.num_states))
        return self._observe()

    def _observe(self) -> np.ndarray:
        if self.continuous:
            return np.array([self.state], np.float32)
        return np.eye(self.num_states, dtype=np.float32)[int(self.state)]


def spaces_of(num_states: int, continuous: bool) -> tuple[spaces.Box, spaces.Space]:
    """Returns the spaces of observations and actions."""
    if continuous:
        number = spaces.Box(-1.0, 1.0, (1,), np.float32)
        return number, number
    return spaces.Box(0.0, 1.0, (num_states,), np.float32), spaces.Discrete(num_states)


gymnasium.register("Identity-v0", entry_point=IdentityEnv, max_episode_steps=20)
