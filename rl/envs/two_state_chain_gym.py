"""TwoStateChain for Gymnasium, id "TwoStateChain-v0": the process of `rl/envs/graph/two_state_chain.py`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from rl.envs.board import draw


class TwoStateChainEnv(gymnasium.Env[np.ndarray, int]):
    """Two states with known action values; rules and values in `rl/envs/graph/two_state_chain.py`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts in either state with probability 1/2."""
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(2))
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Rewards state 1 with 1, state 0 with 0; action 1 leads from state 0 to state 1 and from state 1
        to the end."""
        reward, terminated = float(self.state), self.state == 1 and action == 1
        self.state = max(self.state, int(action))
        return self._observe(), reward, terminated, False, {}

    def render(self) -> np.ndarray:
        """Returns the two states as cells, the present one lit, uint8 [height, width, 3]."""
        return draw(self._observe()[None])

    def _observe(self) -> np.ndarray:
        return np.eye(2, dtype=np.float32)[self.state]


gymnasium.register("TwoStateChain-v0", entry_point=TwoStateChainEnv, max_episode_steps=8)
