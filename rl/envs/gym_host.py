"""Gymnasium environments as host environments.

`GymHost` steps a list of environments one after another. It is what `SyncVectorEnv` with
`AutoresetMode.NEXT_STEP` does (a test compares them), without the copies, and the infos of steps within
episodes, that nobody here reads.
`GymVectorHost` takes an environment that Gymnasium ships in vector form.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from rl.envs.host import (
    HostEnv,
    HostStep,
    Told,
    action_encoder,
    action_view,
    begun,
    env_seeds,
    fps_of,
    name_of,
    not_five,
    observation_view,
)
from rl.errors import UsageError
from rl.types import Nest

UNLIMITED = 27_000  # steps after which evaluation cuts episodes without a limit, as is the custom for Atari


class GymHost(HostEnv):
    """A `HostEnv` of separate Gymnasium environments with equal spaces.

    Args:
        envs: the environments; `close` closes them.
        step_limit: what `HostEnv.step_limit` is to say; the environments themselves truncate there.
    """

    backend = "gym"

    def __init__(self, envs: Sequence[gymnasium.Env], step_limit: float = math.inf) -> None:
        self.envs, self.step_limit = list(envs), step_limit
        self.num_envs = len(self.envs)
        if len({id(env.unwrapped) for env in self.envs}) < self.num_envs:
            raise UsageError(f"{name_of(self.envs[0])} was returned twice: make a new one in each call")
        self.observation_space = observation_view(self.envs[0].observation_space)
        self.action_space = action_view(self.envs[0].action_space)
        self.encode = action_encoder(self.envs[0].action_space)
        self._batched_actions = batch_space(self.envs[0].action_space, self.num_envs)
        self._ended = [False] * self.num_envs
        plain = isinstance(self.observation_space, spaces.Box)
        self._shape = (self.num_envs, *self.observation_space.shape) if plain else None
        self._of_integers = plain and self.observation_space.dtype.kind in "iub"
        self._counted = list(_counted(self.observation_space))
        self._at: int | None = None
        self._told: Told | None = None
        self.fps = fps_of(self.envs[0])

    @property
    def at(self) -> int | None:
        """See `HostEnv.at`."""
        return self._at

    def reset(self, seed: int) -> Nest:
        """Returns observation [B, ...]; environment i is reset with `env_seeds(seed, B)[i]`."""
        self._ended = [False] * self.num_envs
        observations = []
        for i, each in enumerate(env_seeds(seed, self.num_envs)):
            self._at = i
            observations.append(begun(self.envs[i], each)[0])
        return self._batch(observations)

    def step(self, action: Nest) -> HostStep:
        """Steps each environment once; returns what `HostEnv.step` says. Raises UsageError for an environment
        whose `step` is not Gymnasium's: not of five values, or with no number for the reward."""
        reward = np.zeros(self.num_envs, np.float32)  # [B]
        terminated = np.zeros(self.num_envs, np.bool_)  # [B]
        truncated = np.zeros(self.num_envs, np.bool_)  # [B]
        envs, ended, observations = self.envs, self._ended, []
        gain: Any = 0.0
        try:
            for i, each in enumerate(self._split(self.encode(action))):
                self._at = i
                if ended[i]:
                    observation, ended[i] = begun(envs[i])[0], False
                else:
                    observation, gain, done, cut, info = envs[i].step(each)
                    if gain is None:  # which numpy would take for NaN
                        wrong = name_of(envs[i])
                        raise UsageError(f"{wrong}: step() returned None for the reward: return a number")
                    reward[i] = gain
                    if done or cut:
                        ended[i], terminated[i], truncated[i] = True, done, cut
                        if self._told is not None:
                            self._told(i, info)
                observations.append(observation)
        except (ValueError, TypeError) as error:
            if "values to unpack (expected 5" in str(error):
                raise not_five(envs[self._at or 0]) from error
            if np.ndim(gain) or np.asarray(gain).dtype.kind not in "biuf":
                wrong = f"{name_of(envs[self._at or 0])}: step() returned {gain!r} for the reward"
                raise UsageError(f"{wrong}: return a number") from error
            raise
        return self._batch(observations), reward, terminated, truncated

    def tell_ends(self, told: Told) -> None:
        """Calls `told` from now on where an episode ends, with the number of its environment and the info of
        its last step."""
        self._told = told

    def render(self) -> np.ndarray:
        """Returns what the first environment draws."""
        return np.asarray(self.envs[0].render())

    def close(self) -> None:
        """Closes all environments."""
        for env in self.envs:
            env.close()

    def _split(self, action: Nest) -> Any:
        if isinstance(action, np.ndarray):
            if action.ndim > 1:
                return action
            # Whole numbers as ints; of a Box without axes arrays, which numpy's iteration does not give.
            return action.tolist() if action.dtype == np.int64 else map(np.asarray, action)
        return iterate(self._batched_actions, action)

    def _batch(self, observations: list[Any]) -> Nest:
        """Returns one fresh nest of arrays [B, ...]: what was returned before stays as it was."""
        if self._shape is not None:
            batch = np.empty(self._shape, self.observation_space.dtype)
            shape, quick = self._shape[1:], not self._of_integers
            for i, observation in enumerate(observations):
                if not (quick and type(observation) is np.ndarray and observation.shape == shape):
                    self._check_observation(i, observation)
                batch[i] = observation
            return batch
        out = create_empty_array(self.observation_space, n=self.num_envs, fn=np.empty)
        try:
            batch = concatenate(self.observation_space, observations, out)
        except (ValueError, TypeError, KeyError):
            for i, observation in enumerate(observations):
                self._check_parts(i, self.observation_space, observation, "")
            raise
        for path, space in self._counted:
            self._check_range(path, space, _at_path(batch, path))
        return batch

    def _check_parts(self, i: int, space: spaces.Space, part: Any, where: str) -> None:
        """Raises UsageError for the first part of environment i's observation that is not what its space
        says."""
        self._at = i
        if isinstance(space, (spaces.Dict, spaces.Tuple)):
            named = isinstance(space, spaces.Dict)
            inner = space.items() if named else enumerate(space.spaces)
            rows = range(len(part)) if isinstance(part, (tuple, list)) else ()
            keys = part if isinstance(part, dict) else rows
            for key, each in inner:
                if key not in keys:
                    raise UsageError(
                        f"{name_of(self.envs[i])} returned an observation without the part {where}{key}, "
                        "which its observation_space has"
                    )
                self._check_parts(i, each, part[key], f"{where}{key}/")
        elif np.shape(part) != space.shape:
            raise UsageError(
                f"{name_of(self.envs[i])} returned {where.rstrip('/') or 'an observation'} of shape "
                f"{list(np.shape(part))}, its observation_space says {list(space.shape or ())}"
            )
        elif not np.can_cast(found := np.asarray(part).dtype, space.dtype, "same_kind"):
            raise UsageError(
                f"{name_of(self.envs[i])} returned {where.rstrip('/') or 'an observation'} of {found}, its "
                f"observation_space says {space.dtype}"
            )

    def _check_range(self, path: tuple[Any, ...], space: Any, rows: np.ndarray) -> None:
        """Raises UsageError unless numbers [B, ...] are among those that a space has."""
        count = space.n if isinstance(space, spaces.Discrete) else space.nvec
        outside = ((rows < space.start) | (rows >= space.start + count)).reshape(self.num_envs, -1).any(1)
        if outside.any():
            self._at = int(outside.argmax())
            what = "/".join(map(str, path)) or "the observation"
            raise UsageError(
                f"{name_of(self.envs[self._at])} returned {rows[self._at]} for {what}, not in {space}"
            )

    def _check_observation(self, i: int, observation: Any) -> None:
        """Raises UsageError unless environment i's observation is what its space says."""
        self._at = i
        space, shape = self.observation_space, np.shape(observation)
        if shape != space.shape:  # numpy would spread a number over all places
            raise UsageError(
                f"{name_of(self.envs[i])} returned an observation of shape {list(shape)}, its "
                f"observation_space says {list(space.shape)}"
            )
        if self._of_integers and np.asarray(observation).dtype.kind == "f":
            raise UsageError(
                f"{name_of(self.envs[i])} returned an observation of floating point, its observation_space "
                f"says {space.dtype}"
            )


def _counted(space: spaces.Space, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Returns the parts of observations that are numbers of categories, and where they are."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        yield path, space
    elif isinstance(space, (spaces.Dict, spaces.Tuple)):
        for key, each in space.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces):
            yield from _counted(each, (*path, key))


def _at_path(nest: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        nest = nest[key]
    return nest


class GymVectorHost(HostEnv):
    """A `HostEnv` of one Gymnasium vector environment that resets at the next step.

    Args:
        env: the vector environment, with Box observations; `close` closes it.
    """

    backend = "gym"

    def __init__(self, env: VectorEnv) -> None:
        self.env = env
        self.num_envs = env.num_envs
        self.observation_space = observation_view(env.single_observation_space)
        self.action_space = action_view(env.single_action_space)
        self.encode = action_encoder(env.single_action_space)

    def reset(self, seed: int) -> Nest:
        """Returns observation [B, ...]."""
        return np.array(self.env.reset(seed=env_seeds(seed, 1)[0])[0], self.observation_space.dtype)

    def step(self, action: Nest) -> HostStep:
        """Steps the vector environment once; returns what `HostEnv.step` says, in arrays of its own."""
        observation, reward, terminated, truncated, _ = self.env.step(self.encode(action))
        return (  # copies: a vector environment may write its next step into the same arrays
            np.array(observation, self.observation_space.dtype),
            np.array(reward, np.float32),
            np.array(terminated),
            np.array(truncated),
        )

    def render(self) -> np.ndarray:
        """Returns what the first environment draws."""
        return np.asarray(self.env.render()[0])

    def close(self) -> None:
        """Closes the vector environment."""
        self.env.close()
