"""CartPoleSparse-v0 for Gymnasium: its own CartPole, whose whole reward is paid at the end."""

from __future__ import annotations

from typing import Any

import gymnasium

ENV_ID, STEPS = "CartPoleSparse-v0", 200


class PaidAtTheEnd(gymnasium.Wrapper):
    """Pays the sum of an episode's rewards with its last step.

    Args:
        env: whose episodes end with a step that terminates.
        steps: after which they end in any case.
    """

    def __init__(self, env: gymnasium.Env, steps: int) -> None:
        super().__init__(env)
        self._steps, self._made, self._owed = steps, 0, 0.0

    def reset(self, **options: Any) -> tuple[Any, dict]:
        """Starts an episode."""
        self._made, self._owed = 0, 0.0
        return self.env.reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Makes a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._made, self._owed = self._made + 1, self._owed + float(reward)
        terminated = bool(terminated) or self._made >= self._steps
        return observation, self._owed if terminated else 0.0, terminated, truncated, info


def cartpole(**kwargs: Any) -> gymnasium.Env:
    """Makes the CartPole."""
    from gymnasium.envs.classic_control import CartPoleEnv

    return PaidAtTheEnd(CartPoleEnv(**kwargs), STEPS)


gymnasium.register(ENV_ID, entry_point=cartpole)
