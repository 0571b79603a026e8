"""PettingZoo's environments on the host: many agents, seen as rows or jointly.

`TeamEnvs` has B environments (`rl/envs/pettingzoo_envs.py` says which) as arrays with an agent axis.
`RowsHost` and `JointHost` are the two views of them, the same as in-graph (`rl/envs/graph/multi_agent.py`).

An agent that has left sees zeros. What one does that has left, or is idle in a game by turns, is ignored, and
its action mask allows the first action alone. One that was cut off is shown with what it could go on by.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rl.envs.agents import check_view, joint_spaces, row_space, state_space
from rl.envs.gym_host import UNLIMITED
from rl.envs.host import HostEnv, HostStep, action_encoder, env_seeds, fps_of
from rl.envs.pettingzoo_envs import (
    Seen,
    action_encoder_of,
    common_action_space,
    common_observation_space,
    flat,
    is_by_turns,
    is_cooperative,
    make_parallel,
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

    Its spaces and `agent_names` are those of `rl.envs.agents.AgentsSpaces`; rewards are each agent's own.
    `cooperative` says whether their sum is what all are after.

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
        self.agent_names = tuple(first.possible_agents)
        infos = first.reset(seed=0)[1]
        self.shared_reward, self.cooperative = False, is_cooperative(env_id, first)
        self.num_envs, self._limit = num_envs, math.inf if max_episode_steps is None else max_episode_steps
        self.fps = fps_of(first)

        names = self.agent_names
        self._parts = [Seen(first.observation_space(name)) for name in names]
        self._seen = common_observation_space([each.space for each in self._parts])
        actions = [first.action_space(name) for name in names]
        self.action_space = common_action_space(actions, env_id)
        self._encoders = [action_encoder_of(space) for space in actions]
        self._counts = [int(each.n) if isinstance(each, spaces.Discrete) else 0 for each in actions]
        told = any(ACTION_MASK in infos.get(name, {}) for name in names)
        masked = told or len(set(self._counts)) > 1 or any(each.masked for each in self._parts)
        self._masked = masked and isinstance(self.action_space, spaces.Discrete)
        self.observation_space: spaces.Space = self._seen
        if self._masked:
            mask = spaces.MultiBinary(int(self.action_space.n))
            self.observation_space = spaces.Dict({"observation": self._seen, ACTION_MASK: mask})
        own = getattr(first, "state_space", None)
        self.state_space = flat(own) if isinstance(own, spaces.Box) else None
        self._state_shape = state_space(self).shape
        self._by_turns = is_by_turns(first)
        self._alive = np.ones((num_envs, len(names)), np.bool_)
        self.at = 0  # the environment that was stepped last
        self._over = np.zeros(num_envs, np.bool_)
        self._elapsed = np.zeros(num_envs, np.int64)

    def reset(self, seed: int) -> TeamStep:
        """Starts all episodes anew; environment i is reset with `env_seeds(seed, B)[i]`."""
        step = self._empty()
        for b, each in enumerate(env_seeds(seed, self.num_envs)):
            self.at = b
            self._begin(b, step, each)
        return step

    def step(self, action: np.ndarray) -> TeamStep:
        """Steps all environments; action integers [B, A], or float32 [B, A, k], of any shape that holds
        these."""
        step = self._empty()
        action = action.reshape(self.num_envs, len(self.agent_names), *self.action_space.shape)
        encoded = [encode(action[:, a]) for a, encode in enumerate(self._encoders)]  # of A: [B, ...]
        for b in range(self.num_envs):
            self.at = b
            if self._over[b]:
                self._begin(b, step)
            else:
                self._move(b, step, [each[b] for each in encoded])
        return step

    def _empty(self) -> TeamStep:
        """Returns arrays to be filled: what was returned before stays as it was."""
        lead = (self.num_envs, len(self.agent_names))
        legal = np.zeros((*lead, self.action_space.n), np.int8) if self._masked else None
        return TeamStep(
            seen=np.zeros((*lead, *self._seen.shape), self._seen.dtype),
            legal=legal,
            state=np.zeros((self.num_envs, *self._state_shape), np.float32),
            reward=np.zeros(lead, np.float32),
            alive=np.zeros(lead, np.bool_),
            terminated=np.zeros(lead, np.bool_),
            truncated=np.zeros(lead, np.bool_),
            over=np.zeros(self.num_envs, np.bool_),
        )

    def _begin(self, b: int, step: TeamStep, seed: int | None = None) -> None:
        env = self.envs[b]
        observations, infos = env.reset() if seed is None else env.reset(seed=seed)
        if set(env.agents) != set(self.agent_names):
            raise UsageError(
                f"agents that enter later ({env}) are not supported: all have to be there at first"
            )
        self._alive[b], self._over[b], self._elapsed[b] = True, False, 0
        step.alive[b] = True
        self._show(b, step, observations, infos, self._alive[b])

    def _move(self, b: int, step: TeamStep, action: list[Any]) -> None:
        env, before, names = self.envs[b], self._alive[b].copy(), self.agent_names
        given = {name: action[a] for a, name in enumerate(names) if before[a]}
        observations, rewards, terminations, truncations, infos = env.step(given)
        self._elapsed[b] += 1
        step.reward[b] = [rewards.get(name, 0.0) if before[a] else 0.0 for a, name in enumerate(names)]
        ends = any(terminations.values()) or any(truncations.values()) or self._elapsed[b] >= self._limit
        if not ends and before.all() and len(env.agents) == len(names):  # as most steps are
            step.alive[b] = True
            self._show(b, step, observations, infos, before)
            return
        there = np.array([name in env.agents for name in names])
        cut = np.array([bool(truncations.get(name)) for name in names])
        ended = np.array([bool(terminations.get(name)) for name in names])
        cut &= before & ~ended
        self._alive[b] = before & there & ~ended & ~cut
        if self._elapsed[b] >= self._limit:
            cut |= self._alive[b]
            self._alive[b] = False
        over = self._over[b] = step.over[b] = not self._alive[b].any()
        step.truncated[b] = cut
        step.terminated[b] = ~self._alive[b] & ~cut
        step.alive[b] = self._alive[b] | (cut & over)
        # Who was cut off would have gone on: what its last observation is worth is of all that it might do.
        self._show(b, step, observations, infos, self._alive[b] | cut)

    def _show(self, b: int, step: TeamStep, observations: dict, infos: dict, can_act: np.ndarray) -> None:
        """Writes what environment b shows into row b; can_act: [A] bool, others may take the first action
        alone."""
        mover = self.envs[b].aec_env.agent_selection if self._by_turns else None
        for a, (name, part) in enumerate(zip(self.agent_names, self._parts, strict=True)):
            mask = None
            if name in observations:
                seen, mask = part(observations[name])
                if seen.shape == self._seen.shape:
                    step.seen[b, a] = seen
                else:
                    step.seen[b, a, : seen.size] = seen.ravel()
                mask = infos.get(name, {}).get(ACTION_MASK) if mask is None else mask
            if step.legal is not None:
                count = self._counts[a]
                idle = name not in observations or not can_act[a] or (mask is not None and not np.any(mask))
                # Some games (of cards, say) show the mask of who is on turn to all.
                idle |= self._by_turns and self._alive[b, a] and name != mover
                step.legal[b, a, : 1 if idle else count] = 1 if idle or mask is None else mask
        if self.state_space is not None:
            step.state[b] = np.asarray(self.envs[b].state(), np.float32).ravel()
        else:
            step.state[b] = step.seen[b].ravel()


class _TeamHost(HostEnv):
    """What both views share."""

    backend = "pettingzoo"

    def __init__(self, team: TeamEnvs) -> None:
        self.team, self.fps = team, team.fps

    @property
    def at(self) -> int:
        """See `HostEnv.at`."""
        return self.team.at

    def render(self) -> np.ndarray:
        """Returns what the first environment draws."""
        return np.asarray(self.team.envs[0].render())

    def close(self) -> None:
        """Closes all environments."""
        for env in self.team.envs:
            env.close()


class RowsHost(_TeamHost):
    """A `HostEnv` of B * A rows, the agents of the first environment first; see
    `rl.envs.graph.multi_agent.AgentRows`.

    Args:
        team: B environments.
        sees_state: whether observations have the global state.
    """

    def __init__(self, team: TeamEnvs, sees_state: bool = False) -> None:
        super().__init__(team)
        self.agents, self._sees_state = len(team.agent_names), sees_state
        self.num_envs = team.num_envs * self.agents
        self.observation_space, self.action_space = row_space(team, sees_state), team.action_space
        self.encode = action_encoder(team.action_space)

    def reset(self, seed: int) -> Nest:
        """Returns observation [B * A, ...]."""
        return self._rows(self.team.reset(seed))

    def step(self, action: Nest) -> HostStep:
        """Does what `HostEnv.step` says."""
        step = self.team.step(np.asarray(action))
        return self._rows(step), step.reward.ravel(), step.terminated.ravel(), step.truncated.ravel()

    def _rows(self, step: TeamStep) -> Nest:
        numbers = np.tile(np.eye(self.agents, dtype=np.float32), (self.team.num_envs, 1))
        parts = {"observation": step.seen.reshape(-1, *step.seen.shape[2:]), "agent": numbers}
        if step.legal is not None:
            parts[ACTION_MASK] = step.legal.reshape(self.num_envs, -1)
        if self._sees_state:
            parts["state"] = np.repeat(step.state, self.agents, 0)
        return parts


class JointHost(_TeamHost):
    """A `HostEnv` of B rows, each all agents of an environment, whose rewards are added; see
    `rl.envs.graph.multi_agent.JointView`. An episode is truncated where agents were cut off in its last
    step."""

    def __init__(self, team: TeamEnvs) -> None:
        super().__init__(team)
        self.num_envs = team.num_envs
        self.observation_space, self.action_space = joint_spaces(team)
        self.encode = action_encoder(self.action_space)

    def reset(self, seed: int) -> Nest:
        """Returns observation [B, ...]."""
        return self._joint(self.team.reset(seed))

    def step(self, action: Nest) -> HostStep:
        """Does what `HostEnv.step` says."""
        step = self.team.step(np.asarray(action))
        truncated = step.over & step.truncated.any(1)
        return self._joint(step), step.reward.sum(1), step.over & ~truncated, truncated

    def _joint(self, step: TeamStep) -> Nest:
        parts = {"agents": step.seen, "alive": step.alive.astype(np.float32), "state": step.state}
        parts["reward"] = step.reward
        if step.legal is not None:
            parts[ACTION_MASK] = step.legal.reshape(self.num_envs, -1)
        return parts


def pettingzoo_host(
    env_id: str,
    num_envs: int,
    env_kwargs: dict[str, Any],
    max_episode_steps: int | None,
    view: str = "rows",
    render_mode: str | None = None,
    evaluates: bool = False,
) -> HostEnv:
    """Returns PettingZoo's environments as one of `rl.envs.agents.VIEWS` shows them.

    Args:
        env_id: and the next three, and render_mode: as of `TeamEnvs`.
        view: one of `VIEWS`.
        evaluates: whether episodes without `max_episode_steps` are cut after 27,000 steps, where evaluation
            would wait for ever.

    Raises:
        UsageError: as `TeamEnvs`, or for another view.
    """
    check_view(view)
    endless = evaluates and max_episode_steps is None
    team = TeamEnvs(env_id, num_envs, env_kwargs, UNLIMITED if endless else max_episode_steps, render_mode)
    host = JointHost(team) if view == "joint" else RowsHost(team, view == "rows_and_state")
    host.step_limit = UNLIMITED if endless else math.inf
    return host
