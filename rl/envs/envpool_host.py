"""EnvPool environments as host environments.

EnvPool resets at the next step, as everything here does. Two things differ from Gymnasium:

1. The seeds are fixed when a pool is made, so `reset` makes a new pool.
2. EnvPool calls an episode that reaches a terminal state exactly at the time limit truncated only, though
   nothing follows. Families whose environments end by themselves (`TIMED_HERE`) get a limit one step
   later than the true one, which is kept here; Atari says what else the game is. Elsewhere it stays so: time
   limits that a game has of its own cannot be told from its ends.

Pictures whose channels come first (Atari's) are turned round here: everything else sees [H, W, C].
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import envpool
import numpy as np
from gymnasium import spaces

from rl import cores
from rl.envs.envpool_tasks import ATARI, PROCGEN, find_task
from rl.envs.host import HostEnv, HostStep, action_encoder, action_view, env_seeds, observation_view
from rl.errors import UsageError, one_line
from rl.spaces import channels_first
from rl.types import Nest

TINY = ("envpool.classic_control", "envpool.toy_text")  # a step costs less than waking a thread
NOT_DRAWN = "envpool.mujoco"  # drawing these ends the process
PROCGEN_SIZE = 512  # pixels of a side; the 64 that agents see are few for a person
# Each environment of these was seen to end at the limit that it is given, and to go on until then.
TIMED_HERE = ("envpool.classic_control", "envpool.toy_text", "envpool.box2d", "envpool.mujoco.gym")
UNLIMITED = 2**31 - 1  # what EnvPool calls none
FPS = {ATARI: 60.0, PROCGEN: 15.0}  # frames a second as a person plays; Atari's before frames are skipped
MEMORY = spaces.Box(0, 255, (128,), np.uint8)  # of the Atari console


class EnvPoolHost(HostEnv):
    """A `HostEnv` of `num_envs` EnvPool environments, stepped by EnvPool's own threads.

    Args:
        env_id: an id that `rl.envs.envpool_tasks` knows.
        num_envs: B.
        env_kwargs: options of that environment, and `num_threads`.
        max_episode_steps: steps after which an episode is truncated; None takes the environment's own limit.
        render_mode: "rgb_array" for `render`.

    Attributes:
        life_lost: [B] bool after each step, None for environments without lives: the episode did not end
            though the step says so, only a life of it (Atari's option `episodic_life`).

    Raises:
        UsageError: unknown options, several players, a limit that the environment ignores, a missing library,
            or it cannot be drawn.
    """

    backend = "envpool"

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        env_kwargs: dict[str, Any] | None = None,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs = num_envs
        self._name = env_id
        env_kwargs = dict(env_kwargs or {})
        if "max_episode_steps" in env_kwargs:
            own = env_kwargs.pop("max_episode_steps")
            if max_episode_steps is None:  # -1: Gymnasium's word for none
                max_episode_steps = UNLIMITED if own in (None, -1) else own
        self._task = task = find_task(env_id, env_kwargs)
        self._pool: Any = None
        self._kwargs = {"num_threads": _num_threads(task.family, num_envs), **task.kwargs}
        self._render = self._render_options(render_mode)
        if max_episode_steps is not None:
            self._kwargs["max_episode_steps"] = max_episode_steps
            if max_episode_steps != UNLIMITED:
                self._check_limit()
        spec = self._call(envpool.make_spec, num_envs=num_envs)
        self._limit, self._cut = spec.config.max_episode_steps, np.zeros(num_envs, np.bool_)
        self._timed = task.family in TIMED_HERE and self._limit < UNLIMITED
        if self._timed:
            self._kwargs["max_episode_steps"] = self._limit + 1
        observation_space, action_space = _spaces(spec)
        self.observation_space = MEMORY if task.memory else observation_view(_turned(observation_space))
        self.action_space = action_view(action_space)
        if spec.config.max_num_players > 1:
            raise UsageError(f"environment {env_id} has several players, which is not supported")
        lives = task.family == ATARI and spec.config.episodic_life
        self.life_lost = np.zeros(num_envs, np.bool_) if lives else None
        self.fps = FPS.get(task.family, 30.0) / getattr(spec.config, "frame_skip", 1)
        self.encode = action_encoder(action_space)
        self._decode = _decoder(observation_space)

    def reset(self, seed: int) -> Nest:
        """Returns observation [B, ...] of a new pool, whose environment i has the seed `env_seeds(seed,
        B)[i]`."""
        self.close()
        self._cut = np.zeros(self.num_envs, np.bool_)
        if self.life_lost is not None:
            self.life_lost = np.zeros(self.num_envs, np.bool_)
        seeds = env_seeds(seed, self.num_envs)
        self._pool = self._call(
            envpool.make, env_type="gymnasium", num_envs=self.num_envs, seed=seeds, **self._render
        )
        _spaces(self._pool)
        return self._observed(*self._pool.reset())

    def step(self, action: Nest) -> HostStep:
        """Steps the pool once, as `HostEnv.step` says, and sets `life_lost` where there are lives."""
        if self._timed:
            return self._step_timed(self.encode(action))
        observation, reward, terminated, truncated, info = self._pool.step(self.encode(action))
        if self._task.family == ATARI:
            terminated = terminated | (truncated & (info["terminated"] != 0))
        if self.life_lost is not None:
            self.life_lost = terminated & (info["terminated"] == 0)
        return self._observed(observation, info), reward, terminated, truncated

    def _step_timed(self, action: np.ndarray) -> HostStep:
        """Steps environments whose time limit is kept here: EnvPool, whose own is a step away, must be
        told to reset those that were cut."""
        if self._cut.any():
            observation, reward, terminated, elapsed = self._step_or_reset(action)
        else:
            observation, reward, terminated, _, info = self._pool.step(action)
            elapsed = info["elapsed_step"]
        truncated = elapsed >= self._limit
        self._cut = truncated & ~terminated
        return self._decode(observation), reward, terminated, truncated

    def _step_or_reset(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Returns observation, reward, terminated, elapsed steps, each [B, ...]: where `_cut` of a reset,
        else of a step."""
        ids = np.arange(self.num_envs, dtype=np.int32)
        reward, terminated = np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, np.bool_)
        elapsed = np.zeros(self.num_envs, np.int32)
        first, info = self._pool.reset(ids[self._cut])
        observation = np.empty((self.num_envs, *first.shape[1:]), first.dtype)
        observation[info["env_id"]] = first
        if not self._cut.all():
            others = ids[~self._cut]
            next_observation, next_reward, next_terminated, _, info = self._pool.step(action[others], others)
            place = info["env_id"]
            observation[place], reward[place] = next_observation, next_reward
            terminated[place], elapsed[place] = next_terminated, info["elapsed_step"]
        return observation, reward, terminated, elapsed

    def render(self) -> np.ndarray:
        """Returns the picture of the first environment, uint8 [H, W, 3]."""
        return np.array(self._pool.render()[0])

    def close(self) -> None:
        """Ends the pool's threads."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _observed(self, observation: Nest, info: dict[str, Any]) -> Nest:
        return np.array(info["ram"]) if self._task.memory else self._decode(observation)

    def _render_options(self, mode: str | None) -> dict[str, Any]:
        if mode is None:
            return {}
        if mode != "rgb_array":
            raise UsageError(f"{self._name} is EnvPool's, which opens no window: take --record_video")
        if self._task.family.startswith(NOT_DRAWN):
            raise UsageError(f"EnvPool cannot draw {self._name}")
        size = PROCGEN_SIZE if self._task.family == PROCGEN else 0  # 0: the environment's own
        return {"render_mode": mode} | ({"render_width": size, "render_height": size} if size else {})

    def _call(self, function: Callable[..., Any], **kwargs: Any) -> Any:
        try:
            return function(self._task.id, **{**self._kwargs, **kwargs})
        except ImportError as error:
            hint = ", which ./setup.sh does" if self._task.family == PROCGEN else ""
            raise UsageError(f"environment {self._name}: {one_line(error).rstrip('.')}{hint}") from error
        except Exception as error:
            given = {key: value for key, value in self._kwargs.items() if key != "num_threads"}
            raise UsageError(f"EnvPool cannot make {self._name} with {given}: {one_line(error)}") from error

    def _check_limit(self) -> None:
        """Raises UsageError for those of EnvPool's environments that accept a time limit and ignore it."""
        trial = {"env_type": "gymnasium", "num_envs": 1, "num_threads": 1, "max_episode_steps": 1}
        pool = self._call(envpool.make, **trial)
        action_space = _spaces(pool)[1]
        pool.reset()
        truncated = pool.step(np.zeros((1, *action_space.shape), action_space.dtype))[3][0]
        pool.close()
        if not truncated:
            raise UsageError(
                f"EnvPool's {self._name} ignores max_episode_steps: leave it out or change env_backend"
            )


def _spaces(pool_or_spec: Any) -> tuple[spaces.Space, spaces.Space]:
    """Returns observation and action space; EnvPool makes them when first asked, which warns of lost
    precision."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pool_or_spec.observation_space, pool_or_spec.action_space


def _num_threads(family: str, num_envs: int) -> int:
    if family in TINY and num_envs < 64:
        return 1
    return min(num_envs, cores.usable())


def _channels_first(space: spaces.Space) -> bool:
    """Returns whether elements are pictures [C, H, W]."""
    picture = isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 3
    return picture and channels_first(space.shape)


def _turned(space: spaces.Space) -> spaces.Space:
    """Returns `space` with its pictures as [H, W, C]."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: _turned(each) for key, each in space.spaces.items()})
    if _channels_first(space):
        low, high = (np.moveaxis(limit, 0, -1) for limit in (space.low, space.high))
        return spaces.Box(low, high, dtype=np.uint8)
    return space


def _decoder(space: spaces.Space) -> Callable[[Nest], Nest]:
    """Returns the function from EnvPool's observations [B, ...] to those of
    `observation_view(_turned(space))`."""
    if isinstance(space, spaces.Dict):
        decoders = {key: _decoder(each) for key, each in space.spaces.items()}
        return lambda observation: {key: decode(observation[key]) for key, decode in decoders.items()}
    if _channels_first(space):
        return lambda observation: np.ascontiguousarray(np.moveaxis(observation, 1, -1))
    if space.dtype == np.float64:
        return lambda observation: observation.astype(np.float32)
    return lambda observation: observation
