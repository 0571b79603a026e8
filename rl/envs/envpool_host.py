"""EnvPool environments as host environments.

EnvPool resets at the next step, as everything here does. Two things differ from Gymnasium: an episode that
reaches a terminal state exactly at the time limit is reported as truncated only, and the seeds are fixed when
a pool is made, so that `reset` makes a new pool.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import envpool
import numpy as np
from envpool.registration import registry
from gymnasium import spaces

from rl.envs.host import HostStep, action_encoder, action_view, env_seeds, observation_view
from rl.errors import UsageError
from rl.types import Nest

TINY = ("envpool.classic_control", "envpool.toy_text")  # a step costs less than waking a thread


class EnvPoolHost:
    """A `HostEnv` of `num_envs` EnvPool environments, stepped by EnvPool's own threads.

    Args:
        env_id: an id of `envpool.list_all_envs()`.
        num_envs: B.
        env_kwargs: options of that environment, and `num_threads`.
        max_episode_steps: steps after which an episode is truncated; None takes the environment's own limit.

    Raises:
        UsageError: unknown options, several players, a limit that the environment ignores, a missing library.
    """

    backend = "envpool"

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        env_kwargs: dict[str, Any] | None = None,
        max_episode_steps: int | None = None,
    ) -> None:
        self.num_envs = num_envs
        self._env_id = env_id
        self._pool: Any = None
        self._kwargs = {"num_threads": _num_threads(env_id, num_envs), **(env_kwargs or {})}
        if max_episode_steps is not None:
            self._kwargs["max_episode_steps"] = max_episode_steps
            self._check_limit()
        spec = self._call(envpool.make_spec, num_envs=num_envs)
        observation_space, action_space = _spaces(spec)
        self.observation_space = observation_view(observation_space)
        self.action_space = action_view(action_space)
        if spec.config.max_num_players > 1:
            raise UsageError(f"environment {env_id} has several players, which is not supported")
        self._encode = action_encoder(action_space)
        self._decode = _float32_decoder(observation_space)

    def reset(self, seed: int) -> Nest:
        """Observation [B, ...] of a new pool, whose environment i has the seed `env_seeds(seed, B)[i]`."""
        self.close()
        seeds = env_seeds(seed, self.num_envs)
        self._pool = self._call(envpool.make, env_type="gymnasium", num_envs=self.num_envs, seed=seeds)
        _spaces(self._pool)
        return self._decode(self._pool.reset()[0])

    def step(self, action: Nest) -> HostStep:
        """See `HostEnv.step`."""
        observation, reward, terminated, truncated, _ = self._pool.step(self._encode(action))
        return self._decode(observation), reward, terminated, truncated

    def close(self) -> None:
        """Ends the pool's threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _call(self, function: Callable[..., Any], **kwargs: Any) -> Any:
        try:
            return function(self._env_id, **{**self._kwargs, **kwargs})
        except ImportError as error:
            raise UsageError(f"environment {self._env_id}: {_one_line(error)}") from error
        except Exception as error:
            given = {key: value for key, value in self._kwargs.items() if key != "num_threads"}
            raise UsageError(
                f"EnvPool cannot make {self._env_id} with {given}: {_one_line(error)}"
            ) from error

    def _check_limit(self) -> None:
        """Some of EnvPool's environments accept a time limit and ignore it."""
        trial = {"env_type": "gymnasium", "num_envs": 1, "num_threads": 1, "max_episode_steps": 1}
        pool = self._call(envpool.make, **trial)
        action_space = _spaces(pool)[1]
        pool.reset()
        truncated = pool.step(np.zeros((1, *action_space.shape), action_space.dtype))[3][0]
        pool.close()
        if not truncated:
            raise UsageError(
                f"EnvPool's {self._env_id} ignores max_episode_steps: leave it out or change env_backend"
            )


def _spaces(pool_or_spec: Any) -> tuple[spaces.Space, spaces.Space]:
    """Observation and action space; EnvPool makes them when first asked, which warns of lost precision."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pool_or_spec.observation_space, pool_or_spec.action_space


def _num_threads(env_id: str, num_envs: int) -> int:
    if registry.specs[env_id][0] in TINY and num_envs < 64:
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(num_envs, usable or 1)


def _float32_decoder(space: spaces.Space) -> Callable[[Nest], Nest]:
    """The function from EnvPool's observations to those of `observation_view(space)`."""
    if isinstance(space, spaces.Dict):
        decoders = {key: _float32_decoder(each) for key, each in space.spaces.items()}
        return lambda observation: {key: decode(observation[key]) for key, decode in decoders.items()}
    if space.dtype == np.float64:
        return lambda observation: observation.astype(np.float32)
    return lambda observation: observation


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
