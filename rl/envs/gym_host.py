"""Gymnasium environments as host environments.

`GymHost` steps a list of environments one after another. It is what `SyncVectorEnv` with
`AutoresetMode.NEXT_STEP` does (a test compares them), without the infos and copies that nobody here reads.
`GymVectorHost` takes an environment that Gymnasium ships in vector form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from rl.envs.host import HostEnv, HostStep, action_encoder, action_view, env_seeds, observation_view
from rl.errors import UsageError
from rl.types import Nest

UNLIMITED = 27_000  # steps after which evaluation cuts episodes without a limit, as is the custom for Atari
_OLD = "as environments of old Gym do: write it for Gymnasium 1 (gymnasium.farama.org, migration guide)"


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
            raise UsageError(f"{_name(self.envs[0])} was returned twice: make a new one in each call")
        self.observation_space = observation_view(self.envs[0].observation_space)
        self.action_space = action_view(self.envs[0].action_space)
        self.encode = action_encoder(self.envs[0].action_space)
        self._batched_actions = batch_space(self.envs[0].action_space, self.num_envs)
        self._ended = [False] * self.num_envs
        plain = isinstance(self.observation_space, spaces.Box)
        self._shape = (self.num_envs, *self.observation_space.shape) if plain else None
        self._of_integers = plain and self.observation_space.dtype.kind in "iub"
        self._at: int | None = None
        self.fps = float(self.envs[0].metadata.get("render_fps") or 30)

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
            observations.append(_begun(self.envs[i], each))
        return self._batch(observations)

    def step(self, action: Nest) -> HostStep:
        """See `HostEnv.step`. Raises UsageError for an environment whose `step` is not Gymnasium's."""
        reward = np.zeros(self.num_envs, np.float32)  # [B]
        terminated = np.zeros(self.num_envs, np.bool_)  # [B]
        truncated = np.zeros(self.num_envs, np.bool_)  # [B]
        envs, ended, observations = self.envs, self._ended, []
        try:
            for i, each in enumerate(self._split(self.encode(action))):
                self._at = i
                if ended[i]:
                    observation, ended[i] = _begun(envs[i]), False
                else:
                    observation, gain, done, cut, _ = envs[i].step(each)
                    if gain is None:  # which numpy would take for NaN
                        wrong = _name(envs[i])
                        raise UsageError(f"{wrong}: step() returned None for the reward: return a number")
                    reward[i] = gain
                    if done or cut:
                        ended[i], terminated[i], truncated[i] = True, done, cut
                observations.append(observation)
        except ValueError as error:
            if "values to unpack (expected 5" in str(error):
                wrong = _name(envs[self._at or 0])
                raise UsageError(f"{wrong}: step() does not return five things, {_OLD}") from error
            raise
        return self._batch(observations), reward, terminated, truncated

    def render(self) -> np.ndarray:
        """Returns what the first environment draws."""
        return np.asarray(self.envs[0].render())

    def close(self) -> None:
        """Closes all environments."""
        for env in self.envs:
            env.close()

    def _split(self, action: Nest) -> Any:
        if isinstance(action, np.ndarray):
            return action.tolist() if action.ndim == 1 and action.dtype == np.int64 else action
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
        return concatenate(self.observation_space, observations, out)

    def _check_observation(self, i: int, observation: Any) -> None:
        """Raises UsageError unless environment i's observation is what its space says."""
        self._at = i
        space, shape = self.observation_space, np.shape(observation)
        if shape != space.shape:  # numpy would spread a number over all places
            raise UsageError(
                f"{_name(self.envs[i])} returned an observation of shape {list(shape)}, its "
                f"observation_space says {list(space.shape)}"
            )
        if self._of_integers and np.asarray(observation).dtype.kind == "f":
            raise UsageError(
                f"{_name(self.envs[i])} returned an observation of floating point, its observation_space "
                f"says {space.dtype}"
            )


def _begun(env: gymnasium.Env, seed: int | None = None) -> Any:
    """Returns the first observation of an episode. Raises UsageError for a `reset` that is not
    Gymnasium's."""
    try:
        found = env.reset() if seed is None else env.reset(seed=seed)
    except TypeError as error:
        if "'seed'" in str(error):
            raise UsageError(f"{_name(env)}: reset() takes no seed, {_OLD}") from error
        raise
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict)):
        raise UsageError(f"{_name(env)}: reset() does not return (observation, info), {_OLD}")
    return found[0]


def _name(env: gymnasium.Env) -> str:
    return f"environment {env.spec.id if env.spec is not None else type(env.unwrapped).__name__}"


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
        """See `HostEnv.step`."""
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
