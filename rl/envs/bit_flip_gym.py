"""BitFlip for Gymnasium, id "BitFlip-v0": the rules of `rl/envs/graph/bit_flip.py` in numpy.

It keeps the convention of Gymnasium-Robotics' `GoalEnv` (`compute_reward`, `compute_terminated`).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from rl.envs.board import draw
from rl.errors import UsageError

Observation = dict[str, np.ndarray]


class BitFlipEnv(gymnasium.Env[Observation, int]):
    """Turn `bits` bits into a goal, one flip a step; see `rl/envs/graph/bit_flip.py` for the source."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, render_mode: str | None = None, bits: int = 15) -> None:
        check_bits(bits)
        self.render_mode, self.bits = render_mode, bits
        self.observation_space, self.action_space = goal_space(bits), spaces.Discrete(bits)
        self.state = np.zeros([2, bits], np.int8)  # the bits, and their goal

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Draws bits and goal."""
        super().reset(seed=seed)
        self.state = self.np_random.integers(0, 2, [2, self.bits], np.int8)
        return self._observe(), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Flips one bit."""
        self.state = self.state.copy()
        self.state[0, action] ^= 1
        state, goal = self.state
        reward, terminated = self.compute_reward(state, goal, {}), self.compute_terminated(state, goal, {})
        return self._observe(), reward, terminated, False, {"is_success": terminated}

    def compute_reward(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> float:
        """Returns 0 at the goal, -1 elsewhere."""
        return 0.0 if self.compute_terminated(achieved_goal, desired_goal, info) else -1.0

    def compute_terminated(self, achieved_goal: np.ndarray, desired_goal: np.ndarray, info: Any) -> bool:
        """Returns whether all bits are as they should be."""
        return bool(np.array_equal(achieved_goal, desired_goal))

    def render(self) -> np.ndarray:
        """Returns the bits above their goal as a picture, uint8 [height, width, 3]."""
        return draw(self.state.astype(np.float32))

    def _observe(self) -> Observation:
        state, goal = self.state
        return {"observation": state, "achieved_goal": state, "desired_goal": goal}


def goal_space(bits: int) -> spaces.Dict:
    """Returns the space of observations."""
    names = "observation", "achieved_goal", "desired_goal"
    return spaces.Dict({name: spaces.MultiBinary(bits) for name in names})


def check_bits(bits: int) -> None:
    """Raises UsageError where there is nothing to flip."""
    if bits < 1:
        raise UsageError(f"BitFlip needs at least 1 bit, not {bits}")


def bit_flip(render_mode: str | None = None, bits: int = 15) -> gymnasium.Env:
    """Makes one whose episodes are cut after as many steps as it has bits."""
    return TimeLimit(BitFlipEnv(render_mode, bits), bits)


gymnasium.register("BitFlip-v0", entry_point=bit_flip)
