"""CartPoleNoVel-v1 and PendulumNoVel-v1 for Gymnasium: its own environments without velocities."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class NoVelocity(gymnasium.ObservationWrapper):
    """Shows some numbers of an observation only.

    Args:
        env: with Box observations of one axis.
        seen: which numbers are left.
    """

    def __init__(self, env: gymnasium.Env, seen: list[int]) -> None:
        super().__init__(env)
        self.seen = seen
        box = env.observation_space
        assert isinstance(box, spaces.Box)
        self.observation_space = spaces.Box(box.low[seen], box.high[seen], dtype=np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Returns float32 [len(seen)]."""
        return observation[self.seen]


def cartpole(**kwargs: Any) -> gymnasium.Env:
    """Makes a CartPole of which position and angle are seen."""
    from gymnasium.envs.classic_control import CartPoleEnv

    return NoVelocity(CartPoleEnv(**kwargs), [0, 2])


def pendulum(**kwargs: Any) -> gymnasium.Env:
    """Makes a Pendulum of which cosine and sine of the angle are seen."""
    from gymnasium.envs.classic_control import PendulumEnv

    return NoVelocity(PendulumEnv(**kwargs), [0, 1])


for _name, _make, _steps in (("CartPoleNoVel-v1", cartpole, 500), ("PendulumNoVel-v1", pendulum, 200)):
    gymnasium.register(_name, entry_point=_make, max_episode_steps=_steps)
