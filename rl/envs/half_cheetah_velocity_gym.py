"""HalfCheetahVelocity-v0: HalfCheetah that is to run at a velocity which it is not told.

Finn et al. 2017, "Model-Agnostic Meta-Learning", https://arxiv.org/abs/1703.03400, section 5.3: the reward is
minus the distance between the velocity and the goal, which is uniform in [0, 2) m/s, less 0.05 times the sum
of the squared torques; an episode has 200 steps.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

ENV_ID, STEPS, FASTEST, BANDS = "HalfCheetahVelocity-v0", 200, 2.0, 10
PARTS = {"all": None, "train": 0.0, "test": 1.0}  # which of each pair of bands, as `rl.envs.graph.tasks.part`


class PaidForVelocity(gymnasium.Wrapper):
    """Draws a goal at each reset, and pays for the nearness to it. `info["goal"]` tells it.

    Args:
        env: HalfCheetah-v5.
        tasks: "all", or one of two halves without a common goal: "train", "test".

    Raises:
        ValueError: `tasks` is none of the three.
    """

    def __init__(self, env: gymnasium.Env, tasks: str = "all") -> None:
        super().__init__(env)
        if tasks not in PARTS:
            raise ValueError(f"tasks={tasks!r}: needs one of {', '.join(PARTS)}")
        self._part, self._goal = PARTS[tasks], 0.0

    def reset(self, **options: Any) -> tuple[Any, dict]:
        """Draws a goal and starts an episode."""
        observation, info = self.env.reset(**options)
        self._goal = FASTEST * part(self._part, float(self.unwrapped.np_random.random()))
        return observation, info | {"goal": self._goal}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Makes a step."""
        observation, _, terminated, truncated, info = self.env.step(action)
        reward = info["reward_ctrl"] - abs(info["x_velocity"] - self._goal)
        return observation, float(reward), terminated, truncated, info | {"goal": self._goal}


def part(first: float | None, unit: float) -> float:
    """Returns a number of [0, 1): `unit` itself, or of `unit` its place in every second of ten bands."""
    if first is None:
        return unit
    band, inside = divmod(unit * (BANDS // 2), 1.0)
    return float(np.nextafter((2.0 * band + first + inside) / BANDS, 0.0))


def half_cheetah(tasks: str = "all", **kwargs: Any) -> gymnasium.Env:
    """Makes the environment; `kwargs` are HalfCheetah-v5's."""
    from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

    return PaidForVelocity(HalfCheetahEnv(ctrl_cost_weight=0.05, **kwargs), tasks)


gymnasium.register(ENV_ID, entry_point=f"{__name__}:half_cheetah", max_episode_steps=STEPS)
