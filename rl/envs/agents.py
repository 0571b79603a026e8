"""How algorithms see environments of many agents: the spaces of both views, without TensorFlow.

`rl/envs/graph/multi_agent.py` says what the views are; host adapters give the same spaces.
"""

from __future__ import annotations

import math
import re
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from rl.errors import UsageError, nearest
from rl.spaces import ACTION_MASK
from rl.types import Nest

VIEWS = ("rows", "rows_and_state", "joint")
SUM = "own_return/"  # before an agent's name: its return, added up over episodes of training
# What other columns after `return_` are called (`rl.runners.evaluate`).
TAKEN = {"mean", "std", "min", "max", "mean_sampled", "mean_greedy"}


class OfAgents(spaces.Box):
    """A number in [0, 1] for each of A agents, and who they are; an observation's part that says it has one.

    Args:
        names: of the agents, A.
        cooperative: whether the sum of their rewards is what all of them are after.
    """

    def __init__(self, names: tuple[str, ...], cooperative: bool):
        super().__init__(0.0, 1.0, (len(names),), np.float32)
        self.names, self.cooperative = tuple(names), cooperative


class AgentsSpaces(Protocol):
    """The spaces of an environment of A agents, each that of one agent."""

    agent_names: tuple[str, ...]
    observation_space: spaces.Space
    action_space: Any
    state_space: spaces.Box | None
    shared_reward: bool


def check_view(view: str) -> None:
    """Raises UsageError for a name that is none of `VIEWS`."""
    if view not in VIEWS:
        raise UsageError(f"unknown view {view!r} of many agents: {nearest(view, VIEWS)}")


def row_space(env: AgentsSpaces, sees_state: bool) -> spaces.Dict:
    """Returns the space of one agent's observations in the views `rows` and `rows_and_state`."""
    parts = dict(_parts(env))
    parts["agent"] = _of_agents(env)
    if sees_state:
        parts["state"] = state_space(env)
    return spaces.Dict(parts)


def joint_spaces(env: AgentsSpaces) -> tuple[spaces.Dict, spaces.Space]:
    """Returns the spaces of observations and of actions in the view `joint`."""
    count, own = len(env.agent_names), _parts(env)
    shown = {
        "agents": _repeated(own["observation"], count),
        "alive": _of_agents(env),
        "state": state_space(env),
    }
    if ACTION_MASK in own:
        mask = own[ACTION_MASK]
        if not isinstance(mask, spaces.MultiBinary):
            raise UsageError(f"{ACTION_MASK} has to be MultiBinary, not {mask}")
        shown[ACTION_MASK] = spaces.MultiBinary(count * int(mask.n))
    if not env.shared_reward:
        shown["reward"] = spaces.Box(-np.inf, np.inf, (count,), np.float32)
    action = env.action_space
    if isinstance(action, spaces.Discrete):
        return spaces.Dict(shown), spaces.MultiDiscrete([int(action.n)] * count)
    low, high = (np.tile(np.ravel(each), count) for each in (action.low, action.high))
    return spaces.Dict(shown), spaces.Box(low, high, dtype=np.float32)


def state_space(env: AgentsSpaces) -> spaces.Box:
    """Returns the space of the global state [S]: the environment's, or all agents' observations."""
    if env.state_space is not None:
        return env.state_space
    size = len(env.agent_names) * math.prod(_parts(env)["observation"].shape or ())
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def unpaid(space: spaces.Space, observation: Nest) -> Nest:
    """Returns observations [B, ...] of that space with nothing paid to any agent in the step that led there,
    where they tell what each is paid, as the view `joint` does; others as they are."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {}
    if "reward" not in parts or not isinstance(parts.get("alive"), OfAgents):
        return observation
    return observation | {"reward": np.zeros_like(observation["reward"])}


class OwnRewards:
    """What each agent is paid, of environments on the host in any view.

    Args:
        space: of observations.
        rows: of each environment (`HostEnv.agents`).

    Attributes:
        names: of the A agents, as parts of columns' names: their numbers where a name is no such part.
            Empty where an environment is played by one.
    """

    def __init__(self, space: spaces.Space, rows: int):
        parts = space.spaces if isinstance(space, spaces.Dict) else {}
        found, self._rows = parts.get("agent" if rows > 1 else "alive"), rows > 1
        names = [str(each) for each in found.names] if isinstance(found, OfAgents) else []
        legal = len(set(names)) == len(names) and all(re.fullmatch(r"[\w.+-]+", each) for each in names)
        self.names = tuple(names if legal and not TAKEN & set(names) else map(str, range(len(names))))

    def of_step(self, before: Nest, reward: np.ndarray, gone: np.ndarray, after: Nest) -> np.ndarray:
        """Returns rewards [B, A] of one step, 0 after an agent has left, also where all are paid the same.

        before, after: observations [rows, ...]; reward: [rows]; gone: [rows] bool, before the step.
        """
        if not self.names:
            return np.zeros((len(reward), 0), np.float32)
        if self._rows:
            return np.where(gone, 0.0, reward).reshape(-1, len(self.names))
        return after["reward"] if "reward" in after else reward[:, None] * before["alive"]

    def of_rollout(self, observation: Nest, reward: Any, mask: Any, library: Any) -> Any:
        """Returns the same of T steps, [T, B, A]: arrays, or tensors where the library is TensorFlow.

        observation: [T + 1, rows, ...]; reward, mask: [T, rows], as of a `Trajectory`.
        """
        if self._rows:  # no step of an agent that is gone counts
            own = library.where(mask > 0.0, reward, 0.0)
            return library.reshape(own, [reward.shape[0], -1, len(self.names)])
        if "reward" in observation:
            return observation["reward"][1:]
        return library.where(observation["alive"][:-1] > 0.0, reward[..., None], 0.0)


def _of_agents(env: AgentsSpaces) -> OfAgents:
    """Who they are; rewards are opposed where the environment says so."""
    return OfAgents(env.agent_names, getattr(env, "cooperative", True))


def _parts(env: AgentsSpaces) -> dict[str, spaces.Space]:
    """What one agent observes, by name."""
    space = env.observation_space
    return dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}


def _repeated(space: spaces.Space, count: int) -> spaces.Box:
    if not isinstance(space, spaces.Box):
        raise UsageError(f"agents have to observe a Box, not {space}")
    low, high = (np.broadcast_to(each, (count, *space.shape)) for each in (space.low, space.high))
    return spaces.Box(low, high, dtype=space.dtype.type)
