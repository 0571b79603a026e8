"""PettingZoo's environments on the host: many agents, seen as rows or jointly.

`TeamEnvs` has B environments (`rl/envs/pettingzoo_envs.py` says which) as arrays with an agent axis.
`RowsHost` and `JointHost` are the two views of them, the same as in-graph (`rl/envs/graph/multi_agent.py`).

An agent that has left sees zeros. What one does that has left, or is idle in a game by turns, is ignored, and
its action mask allows the first action alone.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rl.envs.host import HostEnv, HostStep, action_encoder, env_seeds
from rl.envs.pettingzoo_envs import (
    Seen,
    action_encoder_of,
    common_action_space,
    common_observation_space,
    make_parallel,
    repeated,
    stacked,
)
from rl.errors import UsageError
from rl.spaces import ACTION_MASK
from rl.types import Nest


class TeamStep(NamedTuple):
    """What B environments of A agents show."""

    seen: np.ndarray  # [B, A, ...] zeros of an agent that is gone
    legal: np.ndarray | None  # [B, A, n] int8, None: all actions always are
    state: np.ndarray  # [B, S] float32
    reward: np.ndarray  # [B, A] float32
    alive: np.ndarray  # [B, A] bool: has not left; of an episode that was cut, who was there to the end
    terminated: np.ndarray  # [B, A] bool: has left, now or before
    truncated: np.ndarray  # [B, A] bool: was cut off now
    over: np.ndarray  # [B] bool: the episode has ended, the next step resets


class TeamEnvs:
    """B PettingZoo environments stepped one after another; next-step autoreset of each as a whole.

    Args:
        env_id: "pettingzoo:" and an id or a module.
        num_envs: B.
        env_kwargs: options of the environment.
        max_episode_steps: steps after which an episode is truncated; None: the environment's own affair.
        render_mode: None or "rgb_array".

    Raises:
        UsageError: PettingZoo is missing, there is no such environment, or not with these options or spaces.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        env_kwargs: dict[str, Any] | None = None,
        max_episode_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        options = dict(env_kwargs or {})
        if render_mode is not None:
            options["render_mode"] = render_mode
        self.envs = [make_parallel(env_id, options) for _ in range(num_envs)]
        first = self.envs[0]
        self.names = tuple(first.possible_agents)
        infos = first.reset(seed=0)[1]
        self.num_envs, self._limit = num_envs, math.inf if max_episode_steps is None else max_episode_steps
        self.fps = float(first.metadata.get("render_fps") or 30)

        own = [first.observation_space(name) for name in self.names]
        self._parts = [Seen(space) for space in own]
        self.observation_space = common_observation_space([each.space for each in self._parts])
        actions = [first.action_space(name) for name in self.names]
        self.action_space = common_action_space(actions, env_id)
        self._encoders = [action_encoder_of(space) for space in actions]
        self._counts = [int(each.n) if isinstance(each, spaces.Discrete) else 0 for each in actions]
        told = any(ACTION_MASK in infos.get(name, {}) for name in self.names)
        masked = told or len(set(self._counts)) > 1 or any(each.masked for each in self._parts)
        self.masked = masked and isinstance(self.action_space, spaces.Discrete)
        self.state_space = self._state_space(first)
        self._alive = np.ones((num_envs, len(self.names)), np.bool_)
        self._over = np.zeros(num_envs, np.bool_)
        self._elapsed = np.zeros(num_envs, np.int64)

    def reset(self, seed: int) -> TeamStep:
        """Starts all episodes anew; environment i is reset with `env_seeds(seed, B)[i]`."""
        step = self._empty()
        for b, each in enumerate(env_seeds(seed, self.num_envs)):
            self._begin(b, step, each)
        return step

    def step(self, action: np.ndarray) -> TeamStep:
        """Steps all environments; action [B, A] integers, or [B, A, k] float32."""
        step = self._empty()
        encoded = [encode(action[:, a]) for a, encode in enumerate(self._encoders)]  # of A: [B, ...]
        for b in range(self.num_envs):
            if self._over[b]:
                self._begin(b, step)
            else:
                self._move(b, step, [each[b] for each in encoded])
        return step

    def _empty(self) -> TeamStep:
        """Returns arrays to be filled: what was returned before stays as it was."""
        lead = (self.num_envs, len(self.names))
        legal = np.zeros((*lead, self.action_space.n), np.int8) if self.masked else None
        space = self.observation_space
        return TeamStep(
            seen=np.zeros((*lead, *space.shape), space.dtype),
            legal=legal,
            state=np.zeros((self.num_envs, *self.state_space.shape), np.float32),
            reward=np.zeros(lead, np.float32),
            alive=np.zeros(lead, np.bool_),
            terminated=np.zeros(lead, np.bool_),
            truncated=np.zeros(lead, np.bool_),
            over=np.zeros(self.num_envs, np.bool_),
        )

    def _begin(self, b: int, step: TeamStep, seed: int | None = None) -> None:
        env = self.envs[b]
        observations, infos = env.reset() if seed is None else env.reset(seed=seed)
        if set(env.agents) != set(self.names):
            raise UsageError(
                f"agents that enter later ({env}) are not supported: all have to be there at first"
            )
        self._alive[b], self._over[b], self._elapsed[b] = True, False, 0
        step.alive[b] = True
        self._show(b, step, observations, infos)

    def _move(self, b: int, step: TeamStep, action: list[Any]) -> None:
        env, before = self.envs[b], self._alive[b].copy()
        given = {name: action[a] for a, name in enumerate(self.names) if before[a]}
        observations, rewards, terminations, truncations, infos = env.step(given)
        self._elapsed[b] += 1
        there = np.array([name in env.agents for name in self.names])
        cut = np.array([bool(truncations.get(name)) for name in self.names])
        ended = np.array([bool(terminations.get(name)) for name in self.names])
        cut &= before & ~ended
        self._alive[b] = before & there & ~ended & ~cut
        if self._elapsed[b] >= self._limit:
            cut |= self._alive[b]
            self._alive[b] = False
        over = self._over[b] = step.over[b] = not self._alive[b].any()
        step.reward[b] = [rewards.get(name, 0.0) if before[a] else 0.0 for a, name in enumerate(self.names)]
        step.truncated[b] = cut
        step.terminated[b] = ~self._alive[b] & ~cut
        step.alive[b] = self._alive[b] | (cut & over)
        self._show(b, step, observations, infos)

    def _show(self, b: int, step: TeamStep, observations: dict, infos: dict) -> None:
        """Writes what environment b shows into row b."""
        for a, (name, part) in enumerate(zip(self.names, self._parts, strict=True)):
            mask = None
            if name in observations:
                seen, mask = part(observations[name])
                if seen.shape == self.observation_space.shape:
                    step.seen[b, a] = seen
                else:
                    step.seen[b, a, : seen.size] = seen.ravel()
                mask = infos.get(name, {}).get(ACTION_MASK) if mask is None else mask
            if step.legal is not None:
                count = self._counts[a]
                idle = (
                    name not in observations
                    or not self._alive[b, a]
                    or (mask is not None and not np.any(mask))
                )
                step.legal[b, a, : 1 if idle else count] = 1 if idle or mask is None else mask
        if self._own_state:
            step.state[b] = np.asarray(self.envs[b].state(), np.float32).ravel()
        else:
            step.state[b] = step.seen[b].ravel()

    def _state_space(self, env: Any) -> spaces.Box:
        """Returns the space of states: the environment's own ones, else all observations one after
        another."""
        own = getattr(env, "state_space", None)
        self._own_state = isinstance(own, spaces.Box)
        return (
            repeated(own, 1)
            if isinstance(own, spaces.Box)
            else repeated(self.observation_space, len(self.names))
        )


class _TeamHost(HostEnv):
    """What both views share. Arguments as of `TeamEnvs`."""

    backend = "pettingzoo"

    def __init__(self, team: TeamEnvs) -> None:
        self.team, self.agents, self.agent_names = team, len(team.names), team.names
        self.fps = team.fps

    def render(self) -> np.ndarray:
        """Returns what the first environment draws."""
        return np.asarray(self.team.envs[0].render())

    def close(self) -> None:
        """Closes all environments."""
        for env in self.team.envs:
            env.close()


class RowsHost(_TeamHost):
    """A `HostEnv` of B * A rows, the agents of the first environment first.

    Observation: "observation", "agent" (one-hot [A]), "action_mask" where there is one, and "state" where it
    is asked for. Each row has its agent's own reward. An agent that has left is `terminated` at every step
    until its environment resets, with reward 0.
    """

    def __init__(self, team: TeamEnvs, sees_state: bool = False) -> None:
        super().__init__(team)
        self.num_envs, self.sees_state = team.num_envs * self.agents, sees_state
        parts = {
            "observation": team.observation_space,
            "agent": spaces.Box(0.0, 1.0, (self.agents,), np.float32),
        }
        if team.masked:
            parts[ACTION_MASK] = spaces.Box(0, 1, (int(team.action_space.n),), np.int8)
        if sees_state:
            parts["state"] = team.state_space
        self.observation_space, self.action_space = spaces.Dict(parts), team.action_space
        self.encode = action_encoder(team.action_space)

    def reset(self, seed: int) -> Nest:
        """Returns observation [B * A, ...]."""
        return self._rows(self.team.reset(seed))

    def step(self, action: Nest) -> HostStep:
        """See `HostEnv.step`."""
        action = np.asarray(action)
        step = self.team.step(action.reshape(-1, self.agents, *action.shape[1:]))
        return self._rows(step), step.reward.ravel(), step.terminated.ravel(), step.truncated.ravel()

    def _rows(self, step: TeamStep) -> Nest:
        rows, shape = self.num_envs, step.seen.shape[2:]
        number = np.tile(np.eye(self.agents, dtype=np.float32), (self.team.num_envs, 1))
        parts = {"observation": step.seen.reshape(rows, *shape), "agent": number}
        if step.legal is not None:
            parts[ACTION_MASK] = step.legal.reshape(rows, -1)
        if self.sees_state:
            parts["state"] = np.repeat(step.state, self.agents, 0)
        return parts


class JointHost(_TeamHost):
    """A `HostEnv` of B rows, each all agents of an environment; the reward is the sum of theirs.

    Observation: "agents" [A, ...], "alive" [A], "state" [S], "action_mask" [A, n] where there is one, and
    "reward" [A], the agents' rewards of the step that led here. Action: MultiDiscrete [A], or Box [A * k].
    """

    def __init__(self, team: TeamEnvs) -> None:
        super().__init__(team)
        self.num_envs, one = team.num_envs, team.action_space
        parts = {
            "agents": stacked(team.observation_space, self.agents),
            "alive": spaces.Box(0.0, 1.0, (self.agents,), np.float32),
            "state": team.state_space,
            "reward": spaces.Box(-np.inf, np.inf, (self.agents,), np.float32),
        }
        if team.masked:
            parts[ACTION_MASK] = spaces.Box(0, 1, (self.agents, int(one.n)), np.int8)
        self.observation_space = spaces.Dict(parts)
        self.action_space = (
            spaces.MultiDiscrete([one.n] * self.agents)
            if isinstance(one, spaces.Discrete)
            else repeated(one, self.agents)
        )
        self.encode = action_encoder(self.action_space)

    def reset(self, seed: int) -> Nest:
        """Returns observation [B, ...]."""
        return self._joint(self.team.reset(seed))

    def step(self, action: Nest) -> HostStep:
        """See `HostEnv.step`. An episode is truncated where agents were cut off in its last step."""
        step = self.team.step(
            np.asarray(action).reshape(self.num_envs, self.agents, *self.team.action_space.shape)
        )
        truncated = step.over & step.truncated.any(1)
        return self._joint(step), step.reward.sum(1), step.over & ~truncated, truncated

    def _joint(self, step: TeamStep) -> Nest:
        parts = {"agents": step.seen, "alive": step.alive.astype(np.float32), "state": step.state}
        parts["reward"] = step.reward
        if step.legal is not None:
            parts[ACTION_MASK] = step.legal
        return parts
