"""In-graph environments of many agents, and the two views that make ordinary environments of them.

An environment is written once, with an axis of agents. Algorithms see it in one of `VIEWS` (`HParams.view`):

* `rows`: every agent is an environment, B * A rows in the order [env 0 agent 0, env 0 agent 1, ...].
  Parameter sharing, independent learners and PPO with a central critic are today's algorithms there.
* `rows_and_state`: the same, and each observation has the global state too, for critics alone.
* `joint`: one observation and one action of all agents, and the team's reward, for VDN, QMIX, MADDPG and kin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.agents import check_view, joint_spaces, row_space
from rl.envs.graph.base import Copies, GraphEnv, merge_resets
from rl.errors import UsageError
from rl.spaces import ACTION_MASK
from rl.types import Nest, Tensor, TimeStep

BASE = "rl.envs.graph.multi_agent.MultiAgentEnv"  # for messages


class MultiAgentEnv(Copies):
    """B copies of one environment of A agents, stepped together.

    A subclass sets the attributes below and writes `initial`, `dynamics` and `observe`, and `state` where it
    has a global state. The rules of `rl.envs.graph.base.GraphEnv` hold: pure tensor functions, static shapes,
    one seed a step.

    Attributes:
        agent_names: A names, in the order of the axis of agents.
        observation_space: of one agent; all are alike. Box, or Dict with an "action_mask".
        action_space: of one agent, Discrete or Box; all are alike.
        state_space: of the global state, Box [S]; None: there is none.
        shared_reward: whether every agent is given the team's reward. The team's return is then that of one
            agent; else it is the sum over agents.
        cooperative: whether that return is what all agents are after. False where they are of opposed sides:
            what learns a team's value refuses these.

    Args:
        num_envs: B.
        max_episode_steps: steps after which an episode is truncated; None takes the environment's own limit.
    """

    agent_names: tuple[str, ...]
    observation_space: spaces.Space
    action_space: Any
    state_space: spaces.Box | None = None
    shared_reward: bool = False
    cooperative: bool = True

    def initial(self, seed: Tensor) -> Nest:
        """Returns fresh physics [B, ...]."""
        raise NotImplementedError

    def dynamics(self, physics: Nest, action: Tensor, seed: Tensor) -> tuple[Nest, Tensor, Tensor]:
        """Returns physics [B, ...], reward [B, A] float32, terminated [B, A] bool after actions [B, A, ...].

        An agent that is terminated is gone until its environment resets: its later actions are ignored, and
        its later rewards are not counted, by the views.
        """
        raise NotImplementedError

    def observe(self, physics: Nest) -> Nest:
        """Returns what each agent observes, [B, A, ...]."""
        raise NotImplementedError

    def state(self, physics: Nest) -> Tensor:
        """Returns the global state [B, S], float32; asked for only where there is a `state_space`."""
        raise NotImplementedError

    def draw(self, physics: Nest) -> np.ndarray:
        """Returns a picture of the first environment, uint8 [H, W, 3]. Eager.

        Raises:
            UsageError: this environment draws none.
        """
        raise UsageError(f"{type(self).__name__} draws no pictures")


class TurnGame(MultiAgentEnv):
    """B games of two players by turns, in which one's gain is the other's loss.

    Who is on turn acts; what the other one does is ignored. Beside what every environment of agents writes,
    a game writes these three functions of any number of games, which search asks (`rl.ops.search`).
    """

    cooperative = False
    moves: int  # that a player on turn may choose among: actions 0 to moves - 1

    def turn(self, physics: Nest) -> Tensor:
        """Returns who is on turn, 0 or 1, int32 [B]."""
        raise NotImplementedError

    def legal_moves(self, physics: Nest) -> Tensor:
        """Returns the moves of who is on turn, bool [B, moves]."""
        raise NotImplementedError

    def play(self, physics: Nest, move: Tensor) -> tuple[Nest, Tensor, Tensor]:
        """Returns physics, what who made the move [B] is paid, float32 [B], and whether the game is over,
        bool [B]."""
        raise NotImplementedError


class AgentsState(NamedTuple):
    """The state of B environments of A agents."""

    physics: Nest  # [B, ...] what `dynamics` moves
    elapsed_steps: Tensor  # [B] int32, steps since the reset
    gone: Tensor  # [B, A] bool: agents that have terminated
    episode_end: Tensor  # [B] bool: the episode is over, the next step resets
    reward: Tensor  # [B, A] float32, of the step that led here


class AgentsView(GraphEnv):
    """What both views share: resets, agents that are gone, the time limit.

    Attributes:
        count: A. `agents` is how many rows an environment has in this view.
    """

    def __init__(self, env: MultiAgentEnv, num_envs: int):
        super().__init__(num_envs, env.max_episode_steps)
        self.env, self.count = env, len(env.agent_names)
        self._share = 1.0 / self.count if env.shared_reward else 1.0

    def reset(self, seed: Tensor) -> tuple[AgentsState, TimeStep]:
        """Does what `GraphEnv.reset` says."""
        count = self.env.num_envs
        nobody = tf.zeros([count, self.count], tf.bool)
        state = AgentsState(
            self.env.initial(seed),
            tf.zeros([count], tf.int32),
            nobody,
            tf.zeros([count], tf.bool),
            tf.zeros([count, self.count]),
        )
        return state, self.time_step(state)

    def step(self, state: AgentsState, action: Nest, seed: Tensor) -> tuple[AgentsState, TimeStep]:
        """Does what `GraphEnv.step` says."""
        resets = state.episode_end  # [B]
        actions = tf.reshape(self._clip(action), [*state.gone.shape, *self.env.action_space.shape])
        physics, reward, terminated = self.env.dynamics(state.physics, actions, seed)
        physics = merge_resets(resets, self.env.initial(seed), physics)
        reward = tf.where(resets[:, None], 0.0, self._paid(reward, state.gone))  # [B, A]
        gone = (state.gone | terminated) & ~resets[:, None]  # [B, A]
        elapsed_steps = tf.where(resets, 0, state.elapsed_steps + 1)  # [B]
        over = tf.reduce_all(gone, 1)  # [B]
        if self.max_episode_steps is not None:  # a reset step has 0 elapsed steps, so it is never truncated
            over |= elapsed_steps >= self.max_episode_steps
        state = AgentsState(physics, elapsed_steps, gone, over, reward)
        return state, self.time_step(state)

    def _paid(self, reward: Tensor, gone: Tensor) -> Tensor:
        """Returns rewards [B, A] without those of agents that were gone before: 0 in their place, or what the
        others are paid, where all are paid the same: the team's pay does not fall when some leave."""
        own = tf.where(gone, 0.0, reward)
        if not self.env.shared_reward:
            return own
        there = tf.reduce_sum(tf.cast(~gone, tf.float32), 1, keepdims=True)
        shared = tf.reduce_sum(own, 1, keepdims=True) / tf.maximum(there, 1.0)
        return tf.where(gone, shared, reward)

    def time_step(self, state: AgentsState) -> TimeStep:
        """Returns what this view shows of a state."""
        raise NotImplementedError

    def truncated(self, state: AgentsState) -> Tensor:
        """Returns [B] bool: whether the time limit has just cut the episode."""
        if self.max_episode_steps is None:
            return tf.zeros_like(state.episode_end)
        return state.elapsed_steps >= self.max_episode_steps

    def draw(self, state: AgentsState) -> np.ndarray:
        """Returns a picture of the first environment, uint8 [H, W, 3]. Eager."""
        return self.env.draw(state.physics)


class AgentRows(AgentsView):
    """Each agent as an environment of its own.

    Observations are Dict: "agent", its number as one-hot [A]; "observation", its own; "action_mask" where
    there is one; "state", the global one, where it is asked for. An agent that is gone is `terminated` at
    every step until its environment resets; runners mask these steps.

    Args:
        env: the environment.
        sees_state: whether observations have the global state; all agents' observations, one after another,
            where the environment has none.
    """

    def __init__(self, env: MultiAgentEnv, sees_state: bool = False):
        super().__init__(env, env.num_envs * len(env.agent_names))
        self.agents, self.team_share = self.count, self._share
        self.observation_space = row_space(env, sees_state)
        self.action_space, self.sees_state = env.action_space, sees_state

    def time_step(self, state: AgentsState) -> TimeStep:
        """Does what `AgentsView.time_step` says."""
        env, rows = self.env, [self.num_envs]
        observation = env.observe(state.physics)
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        shown = {name: tf.reshape(x, rows + list(x.shape[2:])) for name, x in parts.items()}
        shown["agent"] = tf.tile(tf.eye(self.count), [env.num_envs, 1])
        if self.sees_state:
            shown["state"] = tf.repeat(global_state(env, state.physics, parts), self.count, 0)
        cut = self.truncated(state)[:, None] & ~state.gone
        flags = tf.reshape(state.gone, rows), tf.reshape(cut, rows)
        return TimeStep(shown, tf.reshape(state.reward, rows), *flags)


class JointView(AgentsView):
    """All agents as one: one observation, one action, the team's reward.

    Observations are Dict: "agents", what each observes, [A, ...]; "alive", [A] float32, 0 where an agent is
    gone; "state", [S], all agents' observations where the environment has none; "action_mask" [A * n]
    where there is one; "reward" [A], what each agent got in the step that led here, where rewards are not
    shared. Actions are MultiDiscrete [n] * A, or Box [A * k], agent after agent.
    """

    def __init__(self, env: MultiAgentEnv):
        super().__init__(env, env.num_envs)
        self.observation_space, self.action_space = joint_spaces(env)

    def time_step(self, state: AgentsState) -> TimeStep:
        """Does what `AgentsView.time_step` says."""
        observation = self.env.observe(state.physics)
        parts = observation if isinstance(observation, dict) else {"observation": observation}
        shown = {
            "agents": parts["observation"],
            "alive": tf.cast(~state.gone, tf.float32),
            "state": global_state(self.env, state.physics, parts),
        }
        if ACTION_MASK in parts:
            shown[ACTION_MASK] = tf.reshape(parts[ACTION_MASK], [self.num_envs, -1])
        if not self.env.shared_reward:
            shown["reward"] = state.reward
        reward = tf.reduce_sum(state.reward, 1) * self._share
        terminated = tf.reduce_all(state.gone, 1)
        return TimeStep(shown, reward, terminated, self.truncated(state))


def agents_view(env: MultiAgentEnv, view: str) -> AgentsView:
    """Returns the environment as one of `VIEWS` shows it; UsageError for another name."""
    check_view(view)
    return JointView(env) if view == "joint" else AgentRows(env, view == "rows_and_state")


def seen_by(game: TurnGame, physics: Nest, side: Tensor, sees_state: bool) -> dict[str, Tensor]:
    """Returns what the players of these sides [B] observe, as in the view of rows."""
    observation = game.observe(physics)
    parts = observation if isinstance(observation, dict) else {"observation": observation}
    shown = {name: tf.gather(x, side, batch_dims=1) for name, x in parts.items()}
    shown["agent"] = tf.one_hot(side, 2)
    if sees_state:
        shown["state"] = global_state(game, physics, parts)
    return shown


def global_state(env: MultiAgentEnv, physics: Nest, parts: dict[str, Tensor]) -> Tensor:
    """Returns the global state [B, S]; without one, what all agents observe, of which `parts` are."""
    if env.state_space is not None:
        return env.state(physics)
    return tf.reshape(tf.cast(parts["observation"], tf.float32), [env.num_envs, -1])


def check_multi_agent_env(env_id: str, env: MultiAgentEnv) -> None:
    """Raises UsageError where a registered environment lacks a part of `MultiAgentEnv`, which it names."""
    kind = type(env)
    parts = ["initial", "dynamics", "observe"] + ([] if env.state_space is None else ["state"])
    lacking = [f"{each}()" for each in parts if getattr(kind, each) is getattr(MultiAgentEnv, each)]
    for name, expected in (("observation_space", spaces.Space), ("action_space", spaces.Space)):
        if not isinstance(getattr(env, name, None), expected):
            lacking.append(name)
    if not getattr(env, "agent_names", ()):
        lacking.append("agent_names")
    if lacking:
        raise UsageError(f"environment {env_id}: {kind.__name__} lacks {', '.join(lacking)} (see {BASE})")
