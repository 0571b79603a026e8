"""A PettingZoo environment whose agents leave one by one, for tests/envs/test_pettingzoo_host.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Leaving(ParallelEnv):
    """Three agents count steps: "a" terminates in step 1, "b" is cut off in step 2, "c" terminates in step 3.

    An agent's reward is its action (`pays`: 1 for each step of "a", 2 for "b", 3 for "c"), and it sees the
    number of the step; the state is 10 times that number.
    """

    metadata: dict[str, Any] = {"name": "leaving"}  # noqa: RUF012 (PettingZoo's own convention)

    def __init__(self, late: bool = False, stays: bool = False, pays: bool = False) -> None:
        self.possible_agents, self.late, self.stays, self.pays = ["a", "b", "c"], late, stays, pays
        self.state_space = spaces.Box(0.0, np.inf, (1,), np.float32)
        self.count = 0

    def observation_space(self, agent: str) -> spaces.Space:
        return spaces.Box(0.0, 9.0, (2 if agent == "b" else 1,), np.float32)

    def action_space(self, agent: str) -> spaces.Space:
        return spaces.Discrete(3, start=1) if agent == "c" else spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        self.agents, self.count = self.possible_agents[1:] if self.late else self.possible_agents[:], 0
        return self._seen(), {name: {} for name in self.agents}

    def step(self, actions: dict) -> tuple[dict, ...]:
        assert set(actions) == set(self.agents)
        self.count += 1
        leaves = "" if self.stays else " abc"[self.count]
        terminated = {name: name == leaves != "b" for name in self.agents}
        truncated = {name: name == leaves == "b" for name in self.agents}
        pay = {"a": 1, "b": 2, "c": 3} if self.pays else actions
        rewards = {name: float(pay[name]) for name in self.agents}
        seen, infos = self._seen(), {name: {} for name in self.agents}
        self.agents = [name for name in self.agents if name != leaves]
        return seen, rewards, terminated, truncated, infos

    def state(self) -> np.ndarray:
        return np.array([10.0 * self.count], np.float32)

    def _seen(self) -> dict[str, np.ndarray]:
        return {name: np.full(2 if name == "b" else 1, self.count, np.float32) for name in self.agents}


parallel_env = Leaving
