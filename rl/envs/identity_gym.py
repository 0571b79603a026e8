"""Identity for Gymnasium, id "Identity-v0": the rules of `rl/envs/graph/identity.py` in numpy."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl.envs.board import draw


class IdentityEnv(gymnasium.Env[np.ndarray, int]):
    """Name the random state that is shown, 1 of `num_states`; see `rl/envs/graph/identity.py`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, render_mode: str | None = None, num_states: int = 4) -> None:
        self.render_mode = render_mode
        self.num_states = num_states
        self.observation_space = spaces.Box(0.0, 1.0, (num_states,), np.float32)
        self.action_space = spaces.Discrete(num_states)
        self.state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Draws a state."""
        super().reset(seed=seed)
        return self._next(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Rewards the state's name with 1; the next state is drawn whatever the action."""
        reward = float(action == self.state)
        return self._next(), reward, False, False, {}

    def render(self) -> np.ndarray:
        """Returns the states as a row of cells, the present one lit, uint8 [height, width, 3]."""
        return draw(self._observe()[None])

    def _next(self) -> np.ndarray:
        self.state = int(self.np_random.integers(self.num_states))
        return self._observe()

    def _observe(self) -> np.ndarray:
        return np.eye(self.num_states, dtype=np.float32)[self.state]


gymnasium.register("Identity-v0", entry_point=IdentityEnv, max_episode_steps=20)
