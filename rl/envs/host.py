"""Environments that run on the host in numpy: what their adapters promise, and what the adapters share.

Autoreset, flags and rewards are those of the in-graph environments: the step after an episode end ignores the
action and returns the reset observation with reward 0 and both flags False.
"""

from __future__ import annotations

import enum
import math
import numbers
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from rl.errors import UsageError
from rl.spaces import too_large_for_int32
from rl.types import Nest

HostStep = tuple[Nest, np.ndarray, np.ndarray, np.ndarray]  # observation, reward, terminated, truncated
Told = Callable[[int, Any], None]  # called with an environment's number and a step's info


class HostEnv(Protocol):
    """B environments stepped together on the host; adapters derive from it.

    The spaces are those of one environment, as the agent sees them: floats are float32, discrete actions
    start at 0. Arrays that were returned are never written to again.
    """

    backend: str  # "gym", "envpool" or, of in-graph environments in evaluations, "graph"
    num_envs: int  # B
    observation_space: spaces.Space
    action_space: spaces.Space
    encode: Callable[[Nest], Nest]  # the agent's actions [B, ...] as the environment itself takes them
    step_limit: float = math.inf  # steps after which evaluation cuts what has no limit of its own
    fps: float = 30.0  # pictures a second, for videos
    frame_stack: int = 1  # pictures that an observation is made of (`rl.envs.frames`)
    life_lost: np.ndarray | None = None  # [B] bool after a step: only a life ended; None: there are none
    agents: int = 1  # rows of each environment: B rows are of B / agents environments (`rl.envs.agents`)
    team_share: float = 1.0  # by what the sum of their rewards is multiplied to give the team's

    @property
    def at(self) -> int | None:
        """Returns which environment was stepped last; None where all are together."""
        return None

    def reset(self, seed: int) -> Nest:
        """Starts all episodes anew; the same seed gives the same episodes. Returns observation [B, ...]."""

    def step(self, action: Nest) -> HostStep:
        """Steps all environments once.

        Args:
            action: [B] integers for Discrete, [B, ...] float32 for Box (clipped to the space here).

        Returns:
            observation [B, ...], reward [B] float32, terminated [B] bool, truncated [B] bool.
        """

    def tell_ends(self, told: Told) -> None:
        """Calls `told` from now on where an episode ends, with the number of its environment and the info of
        its last step. Only `GymHost` and in-graph environments do so; others never call it."""
        return None  # an empty body would be one that each adapter has to write

    def render(self) -> np.ndarray:
        """Returns the picture of the first environment, uint8 [H, W, 3], where it was made to be drawn."""

    def close(self) -> None:
        """Frees what the environments hold."""


class HostWrapper(HostEnv):
    """A `HostEnv` around another one, which it is but for what a subclass changes."""

    def __init__(self, env: HostEnv) -> None:
        self.env, self.backend, self.num_envs = env, env.backend, env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self.encode, self.step_limit, self.fps = env.encode, env.step_limit, env.fps
        self.frame_stack, self.life_lost = env.frame_stack, env.life_lost
        self.agents, self.team_share = env.agents, env.team_share

    @property
    def at(self) -> int | None:
        """See `HostEnv.at`."""
        return self.env.at

    def reset(self, seed: int) -> Nest:
        """Does what `HostEnv.reset` says."""
        observation = self.env.reset(seed)
        self.life_lost = self.env.life_lost
        return observation

    def step(self, action: Nest) -> HostStep:
        """Does what `HostEnv.step` says."""
        result = self.env.step(action)
        self.life_lost = self.env.life_lost
        return result

    def tell_ends(self, told: Told) -> None:
        """Does what `HostEnv.tell_ends` says."""
        self.env.tell_ends(told)

    def render(self) -> np.ndarray:
        """Does what `HostEnv.render` says."""
        return self.env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()


def env_seeds(seed: int, num_envs: int) -> list[int]:
    """Returns a seed for each environment, in [0, 2^31).

    Not seed, seed + 1, ...: runs with neighbouring seeds would share all but one of their environments.
    """
    return [int(each) for each in np.random.SeedSequence(seed).generate_state(num_envs) >> 1]


class Purpose(enum.IntEnum):
    """What episodes are played for, outside training; the numbers are part of their seeds."""

    EVALUATION = 1  # during training; chooses the best policy
    TEST = 2  # after training
    FILM = 3  # of test episodes
    USER = 4  # `rl.load(...).evaluate`


def purpose_seed(purpose: Purpose, seed: int = 0, number: int = 0) -> int:
    """Returns a seed for `HostEnv.reset`, in [0, 2^64): a stream for each purpose and seed, which share no
    episode.

    number: of the place in the stream.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=(purpose, number))
    return int(sequence.generate_state(1, np.uint64)[0])


_OLD = "as environments of old Gym do: write it for Gymnasium 1 (gymnasium.farama.org, migration guide)"


def begun(env: Any, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
    """Returns the first observation of an episode of Gymnasium's, and its info. Raises UsageError for a
    `reset` that is not Gymnasium's."""
    try:
        found = env.reset() if seed is None else env.reset(seed=seed)
    except TypeError as error:
        if "'seed'" in str(error):
            raise UsageError(f"{name_of(env)}: reset() takes no seed, {_OLD}") from error
        raise
    if not (isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict)):
        raise UsageError(f"{name_of(env)}: reset() does not return (observation, info), {_OLD}")
    return found


def not_five(env: Any) -> UsageError:
    """Returns the error of a `step` that is not Gymnasium's."""
    return UsageError(f"{name_of(env)}: step() does not return five things, {_OLD}")


def name_of(env: Any) -> str:
    """Returns what to call one of Gymnasium's environments in an error."""
    return f"environment {env.spec.id if env.spec is not None else type(env.unwrapped).__name__}"


def fps_of(env: Any) -> float:
    """Returns how many frames a second an environment's films have by its metadata; 30 where they do not
    say."""
    said = (env.metadata or {}).get("render_fps")
    return float(said) if isinstance(said, numbers.Real) and float(said) > 0.0 else 30.0


def observation_view(space: spaces.Space) -> spaces.Space:
    """Returns `space` as agents see it: 64-bit floats are float32, and limits at the edge of float32 are
    none.

    Raises:
        UsageError: the space has no fixed shape.
    """
    if isinstance(space, spaces.Box):
        return _float32_box(space)
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: observation_view(each) for key, each in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([observation_view(each) for each in space.spaces])
    return _fixed(space)


def action_view(space: spaces.Space) -> spaces.Space:
    """Returns `space` as agents see it: float Boxes are float32, Discrete and MultiDiscrete start at 0.

    Raises:
        UsageError: the space has no fixed shape.
    """
    if isinstance(space, spaces.Box):
        if not np.issubdtype(space.dtype, np.floating):
            raise UsageError(f"actions {space} are integers: make them a MultiDiscrete, or a Box of floats")
        return _float32_box(space)
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=space.dtype)
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: action_view(each) for key, each in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([action_view(each) for each in space.spaces])
    return _fixed(space)


def action_encoder(space: spaces.Space) -> Callable[[Nest], Nest]:
    """Returns the function from a batch of the agent's actions to what an environment with this space
    takes."""
    if isinstance(space, spaces.Box):
        return _box_encoder(space)
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        if start:
            return lambda action: np.asarray(action, np.int64) + start
        return lambda action: np.asarray(action, np.int64)
    if isinstance(space, spaces.Dict):
        encoders = {key: action_encoder(each) for key, each in space.spaces.items()}
        return lambda action: {key: encode(action[key]) for key, encode in encoders.items()}
    if isinstance(space, spaces.Tuple):
        parts = [action_encoder(each) for each in space.spaces]
        return lambda action: tuple(encode(each) for encode, each in zip(parts, action, strict=True))
    if isinstance(space, spaces.MultiDiscrete):
        starts, dtype = space.start, space.dtype
        return lambda action: (np.asarray(action) + starts).astype(dtype, copy=False)
    return lambda action: np.asarray(action, space.dtype)


def _box_encoder(space: spaces.Box) -> Callable[[Nest], Nest]:
    low, high, dtype = space.low, space.high, space.dtype

    def encode(action: Any) -> np.ndarray:  # np.clip does the same and takes four times as long
        return np.minimum(np.maximum(action, low), high).astype(dtype, copy=False)

    return encode


def _float32_box(space: spaces.Box) -> spaces.Box:
    if not np.issubdtype(space.dtype, np.floating):
        if not too_large_for_int32(space):
            return space
        return spaces.Box(space.low.astype(np.float32), space.high.astype(np.float32), dtype=np.float32)
    limits = np.finfo(np.float32)
    # EnvPool writes "no limit" below as the smallest positive number, above as the largest one.
    unlimited = (space.low <= limits.min) | (space.low == np.finfo(space.dtype).tiny)
    low = np.where(unlimited, -np.inf, space.low)
    high = np.where(space.high >= limits.max, np.inf, space.high)
    return spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def _fixed(space: spaces.Space) -> spaces.Space:
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)):
        return space
    raise UsageError(
        f"spaces of type {type(space).__name__} are not supported; "
        "Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple are: change them by env_wrappers"
    )
