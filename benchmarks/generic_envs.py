"""Environments for the generic sets: repeat a number, Dict observations, a cliff with a time limit.

CliffWalking gets a limit of 1,000 steps, since Gymnasium's has none and a policy may stand still for ever.

    python train.py --user_modules benchmarks.generic_envs --hparams ppo --env IdentityBox-v0

Imports Gymnasium alone: other libraries' drivers take them as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv


class IdentityBox(gymnasium.Env[np.ndarray, np.ndarray]):
    """Repeat the number that is shown: reward 1 within 0.05 of it, else 0.

    The rules are those of Stable-Baselines3's IdentityEnvBox: observation and action are a number in [-1, 1],
    drawn anew at each step; an episode has 100 steps, so that 100 is the best return and a uniformly random
    player has about 5.
    """

    def __init__(self) -> None:
        self.observation_space = self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.state = np.zeros(1, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self._next(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(abs(float(action[0]) - float(self.state[0])) <= 0.05)
        return self._next(), reward, False, False, {}

    def _next(self) -> np.ndarray:
        self.state = self.np_random.uniform(-1.0, 1.0, 1).astype(np.float32)
        return self.state.copy()


class _InParts(gymnasium.ObservationWrapper):
    """A flat observation as a Dict of named parts."""

    parts: dict[str, slice]

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        whole = env.observation_space
        assert isinstance(whole, spaces.Box)
        self.observation_space = spaces.Dict(
            {name: spaces.Box(whole.low[part], whole.high[part]) for name, part in self.parts.items()}
        )

    def observation(self, observation: np.ndarray) -> dict[str, np.ndarray]:
        return {name: observation[part] for name, part in self.parts.items()}


class DictCartPole(_InParts):
    """CartPole whose observation is a Dict: cart and pole, position and velocity of each."""

    parts = {"cart": slice(0, 2), "pole": slice(2, 4)}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self) -> None:
        super().__init__(CartPoleEnv())


class DictPendulum(_InParts):
    """Pendulum whose observation is a Dict: direction (cosine, sine) and velocity."""

    parts = {"direction": slice(0, 2), "velocity": slice(2, 3)}  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__(PendulumEnv())


FIRST_START = 1_000_000  # seed of the first episode that is played to compare policies


def play(
    env_id: str,
    act: Callable[[Any, dict[str, Any]], Any],
    episodes: int,
    begin: Callable[[], None] | None = None,
) -> np.ndarray:
    """Returns the return of each episode, float [episodes]; each has its own start, the same for everybody.

    act: gives the action for an observation and the info beside it; begin: is called before each episode.
    """
    env = gymnasium.make(env_id)
    returns = []
    for episode in range(episodes):
        observation, info = env.reset(seed=FIRST_START + episode)
        if begin is not None:
            begin()
        total, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, info = env.step(act(observation, info))
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    env.close()
    return np.array(returns)


def register_generic() -> None:
    """Registers the environments; again is no harm."""
    kinds = {
        "IdentityBox-v0": (IdentityBox, 100),
        "DictCartPole-v0": (DictCartPole, 500),
        "DictPendulum-v0": (DictPendulum, 200),
        "CliffWalking1000-v0": (CliffWalkingEnv, 1_000),
    }
    for env_id, (kind, limit) in kinds.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, kind, max_episode_steps=limit)


register_generic()
