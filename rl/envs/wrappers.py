"""Observations with more in them: the action and reward before (host and Gymnasium forms), legal actions.

A part is added to Dict observations beside their own; any other observation becomes the part "observation" of
a Dict. `rl/envs/graph/wrappers.py` is the in-graph form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import create_empty_array

from rl.envs.host import HostEnv, HostStep, HostWrapper, action_view, begun, name_of, observation_view
from rl.errors import UsageError, where_raised
from rl.spaces import ACTION_MASK
from rl.types import Nest

PREVIOUS_ACTION, PREVIOUS_REWARD = "previous_action", "previous_reward"


def joined_space(space: spaces.Space, parts: dict[str, spaces.Space]) -> spaces.Dict:
    """Returns the space of observations of `space` with `parts` added.

    Raises:
        UsageError: the observation has a part of that name already.
    """
    own = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
    for name in parts:
        if name in own:
            raise UsageError(f"the observation already has a part called {name!r}: rename it to add ours")
    return spaces.Dict({**own, **parts})


def joined(observation: Nest, parts: dict[str, Nest]) -> dict[str, Nest]:
    """Returns the observation that `joined_space` is the space of."""
    own = observation if isinstance(observation, dict) else {"observation": observation}
    return {**own, **parts}


def previous_action_space(space: spaces.Space) -> spaces.Space:
    """Returns the space of previous actions, for actions of `space` as agents see them
    (`rl.envs.host.action_view`).

    At the start of an episode there is none: Discrete(n) and MultiDiscrete get a further value, 0, for that,
    and their actions count from 1; Box and MultiBinary are zeros.
    """
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n) + 1)
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec + 1)
    if isinstance(space, spaces.Box):
        # With its shape: bounds of a Box of one number, of shape (), come out as numbers, which have none.
        return spaces.Box(np.minimum(space.low, 0), np.maximum(space.high, 0), space.shape, space.dtype)
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: previous_action_space(each) for key, each in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([previous_action_space(each) for each in space.spaces])
    return space


def with_previous(observation_space: spaces.Space, action_space: spaces.Space) -> spaces.Dict:
    """Returns the observation space with `previous_action` and `previous_reward`, the latter a Box of
    shape (1,)."""
    reward = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    parts = {PREVIOUS_ACTION: previous_action_space(action_space), PREVIOUS_REWARD: reward}
    return joined_space(observation_space, parts)


def previous_action(space: spaces.Space, action: Nest, none: np.ndarray) -> Nest:
    """Returns an agent's actions `[B, ...]` of `space` as elements of `previous_action_space(space)`;
    nothing where `none` [B]."""
    if isinstance(space, spaces.Dict):
        return {key: previous_action(each, action[key], none) for key, each in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, action, strict=True)
        return tuple(previous_action(each, part, none) for each, part in pairs)
    action = np.asarray(action)
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        action = action.astype(np.int64) + 1
    elif isinstance(space, spaces.Box):
        action = np.minimum(np.maximum(action, space.low), space.high)  # as the environment took it
    none = none.reshape(-1, *[1] * (action.ndim - 1))
    return np.where(none, 0, action).astype(space.dtype, copy=False)


class PreviousActionRewardHost(HostWrapper):
    """A `HostEnv` whose observations tell the action and the reward before them; none at an episode's start.

    The reward is the environment's own, before any augmentation.
    """

    def __init__(self, env: HostEnv) -> None:
        super().__init__(env)
        self.observation_space = with_previous(env.observation_space, env.action_space)
        self._ended = np.zeros(env.num_envs, np.bool_)
        self._nothing = create_empty_array(env.action_space, env.num_envs)

    def reset(self, seed: int) -> Nest:
        """Starts all episodes anew; returns observation [B, ...], which tells no action before it, and reward
        0."""
        self._ended = np.zeros(self.num_envs, np.bool_)
        everywhere = np.ones(self.num_envs, np.bool_)
        reward = np.zeros(self.num_envs, np.float32)
        return self._told(super().reset(seed), self._nothing, reward, everywhere)

    def step(self, action: Nest) -> HostStep:
        """Steps all environments once, as `HostEnv.step` says; the observation tells `action` and the reward,
        and no action where the step was an autoreset."""
        resets = self._ended  # [B]
        observation, reward, terminated, truncated = super().step(action)
        self._ended = terminated | truncated
        return self._told(observation, action, reward, resets), reward, terminated, truncated

    def _told(self, observation: Nest, action: Nest, reward: np.ndarray, none: np.ndarray) -> Nest:
        action = previous_action(self.action_space, action, none)
        return joined(observation, {PREVIOUS_ACTION: action, PREVIOUS_REWARD: reward[:, None].copy()})


class PreviousActionReward(gymnasium.Wrapper):
    """The same for one Gymnasium environment, to be watched or stepped by hand."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._actions = action_view(env.action_space)
        self._agents = _agents_action(env.action_space)
        self.observation_space = with_previous(observation_view(env.observation_space), self._actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Returns an observation without previous action, with reward 0."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._told(observation, create_empty_array(self._actions, 1), 0.0, True), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Steps the environment; the observation tells `action` and the reward."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        batch = _map(lambda x: np.asarray(x)[None], self._agents(action))
        told = self._told(observation, batch, float(reward), False)
        return told, reward, terminated, truncated, info

    def _told(self, observation: Any, batch: Any, reward: float, none: bool) -> dict[str, Any]:
        """Returns the observation with its parts; `batch` is the action as a batch of one."""
        action = _map(lambda x: x[0], previous_action(self._actions, batch, np.array([none])))
        return joined(observation, {PREVIOUS_ACTION: action, PREVIOUS_REWARD: np.array([reward], np.float32)})


class ActionMask(gymnasium.Wrapper):
    """Puts `info["action_mask"]` into the observation: int8 [A], 1 where an action is legal.

    A step whose info holds no mask allows every action.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        space = env.action_space
        self._shape = (int(np.sum(space.nvec) if isinstance(space, spaces.MultiDiscrete) else space.n),)
        mask = spaces.MultiBinary(self._shape[0])
        self.observation_space = joined_space(env.observation_space, {ACTION_MASK: mask})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Returns the first observation, with its mask."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._masked(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Steps the environment; the observation's mask says what may follow."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._masked(observation, info), reward, terminated, truncated, info

    def _masked(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        mask = np.asarray(info.get(ACTION_MASK, np.ones(self._shape)), np.int8)
        if mask.shape != self._shape:
            raise UsageError(
                f"info[{ACTION_MASK!r}] has shape {list(mask.shape)}, the actions {self.env.action_space} "
                f"need {list(self._shape)}: one number per action, 0 where it is illegal"
            )
        return joined(observation, {ACTION_MASK: mask})


def masks_in_info(env: gymnasium.Env) -> bool:
    """Returns whether an environment, which is reset, says in its info alone which discrete actions are
    legal. Raises UsageError where that reset fails."""
    own = env.observation_space
    if isinstance(own, spaces.Dict) and ACTION_MASK in own.spaces:
        return False
    discrete = isinstance(env.action_space, (spaces.Discrete, spaces.MultiDiscrete))
    if not discrete:
        return False
    try:
        return ACTION_MASK in begun(env, 0)[1]
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # whatever it raises: nothing can be played
        raise UsageError(f"{name_of(env)}: its first reset() failed, {where_raised(error)}") from error


def _agents_action(space: spaces.Space) -> Callable[[Any], Any]:
    """Returns the inverse of `rl.envs.host.action_encoder`, for one action."""
    if isinstance(space, spaces.Dict):
        inner = {key: _agents_action(each) for key, each in space.spaces.items()}
        return lambda action: {key: each(action[key]) for key, each in inner.items()}
    if isinstance(space, spaces.Tuple):
        parts = [_agents_action(each) for each in space.spaces]
        return lambda action: tuple(each(part) for each, part in zip(parts, action, strict=True))
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        return lambda action: np.asarray(action) - space.start
    return np.asarray


def _map(function: Callable[[Any], Any], nest: Any) -> Any:
    if isinstance(nest, dict):
        return {key: _map(function, each) for key, each in nest.items()}
    return tuple(_map(function, each) for each in nest) if isinstance(nest, tuple) else function(nest)
