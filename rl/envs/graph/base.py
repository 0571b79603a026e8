"""What all in-graph environments share: autoreset, the time limit and the reward of a reset step.

An environment here is stateless configuration; its state travels through `reset` and `step`, which are pure
tensor functions of static shapes, so that a whole rollout can be compiled into one function.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.types import Nest, Tensor, TimeStep

BASE = "rl.envs.graph.base.GraphEnv"  # for messages


class GraphState(NamedTuple):
    """The state of B environments."""

    physics: Nest  # [B, ...] what `dynamics` moves
    elapsed_steps: Tensor  # [B] int32, steps since the reset
    episode_end: Tensor  # [B] bool: the episode is over, the next step resets


class Copies:
    """What environments of one agent and of many begin with.

    Args:
        num_envs: B, how many are stepped together.
        max_episode_steps: steps after which an episode is truncated; None takes the environment's own limit.

    Raises:
        UsageError: a number below 1.
    """

    max_episode_steps: int | None = None

    def __init__(self, num_envs: int, max_episode_steps: int | None = None) -> None:
        if num_envs < 1:
            raise UsageError(f"num_envs must be at least 1, not {num_envs}")
        if max_episode_steps is not None:
            if max_episode_steps < 1:
                raise UsageError(f"max_episode_steps must be at least 1, not {max_episode_steps}")
            self.max_episode_steps = max_episode_steps
        self.num_envs = num_envs


class GraphEnv(Copies):
    """B copies of one environment, stepped together (next-step autoreset, as in Gymnasium 1.x and EnvPool).

    A subclass sets the two spaces and `max_episode_steps` and writes three tensor functions:

    * `initial(seed) -> physics`: a fresh state for each of the B environments;
    * `dynamics(physics, action, seed) -> (physics, reward [B] float32, terminated [B] bool)`;
    * `observe(physics) -> observation [B, ...]`.

    In one step `initial` and `dynamics` get the same seed: an environment keeps either the one's result or
    the other's, never both, so that each result is independent of all that came before it.

    Args:
        num_envs: B.
        max_episode_steps: steps after which an episode is truncated; None takes the environment's own limit.
    """

    backend = "graph"
    frame_stack = 1  # as of host environments: one observation is one picture
    agents = 1  # rows of each environment (`rl.envs.graph.multi_agent`)
    team_share = 1.0  # by what the sum of their rewards is multiplied to give the team's
    observation_space: spaces.Space
    action_space: spaces.Space

    def initial(self, seed: Tensor) -> Nest:
        """Returns fresh physics [B, ...]."""
        raise NotImplementedError

    def next_episode(self, physics: Nest, seed: Tensor) -> Nest:
        """Returns the physics [B, ...] that an episode after one that ended with `physics` begins with: fresh
        ones, unless something is carried over."""
        return self.initial(seed)

    def dynamics(self, physics: Nest, action: Nest, seed: Tensor) -> tuple[Nest, Tensor, Tensor]:
        """Returns physics [B, ...], reward [B] float32, terminated [B] bool after a (clipped) action."""
        raise NotImplementedError

    def observe(self, physics: Nest) -> Nest:
        """Returns observation [B, ...]."""
        raise NotImplementedError

    def regret(self, observation: Nest, action: Nest, reward: Tensor) -> Nest:
        """Returns what the best action would have paid more, expected: float32 [T, B] of steps [T, B, ...];
        () where nobody knows. Bandits know, and it is logged as `train/regret`."""
        return ()

    def goal_reward(self, achieved_goal: Tensor, desired_goal: Tensor) -> tuple[Tensor, Tensor]:
        """Returns reward [N] float32 and terminated [N] bool of steps that reach goals [N, ...] where others
        are desired, as `dynamics` gives them. `memory=hindsight` asks, of environments whose observations
        have these two parts."""
        raise NotImplementedError

    def info(self, state: Any) -> dict[str, Tensor]:
        """Returns what Gymnasium's `info` is to say of a state: numbers or bools [B] by name, such as
        `is_success` (`rl.envs.measures`). Evaluations ask, training does not."""
        return {}

    def reset(self, seed: Tensor) -> tuple[Any, TimeStep]:
        """Starts an episode in all B environments.

        Args:
            seed: int32 [2].

        Returns:
            The state (`GraphState`), and a time step of reward 0 with both flags False.
        """
        physics = self.initial(seed)
        never = tf.zeros([self.num_envs], tf.bool)  # [B]
        state = GraphState(physics, tf.zeros([self.num_envs], tf.int32), never)
        return state, TimeStep(self.observe(physics), tf.zeros([self.num_envs]), never, never)

    def step(self, state: Any, action: Nest, seed: Tensor) -> tuple[Any, TimeStep]:
        """Moves all B environments by one step; those whose episode is over start a new one instead.

        Args:
            state: what the last call returned.
            action: [B, ...]; Box actions are clipped to the space, actions of a reset step are ignored.
            seed: int32 [2], a new one each step.
        """
        resets = state.episode_end  # [B]
        physics, reward, terminated = self.dynamics(state.physics, self._clip(action), seed)
        self._check_moved(reward=(reward, tf.float32), terminated=(terminated, tf.bool))
        physics = merge_resets(resets, self.next_episode(state.physics, seed), physics)
        reward = tf.where(resets, 0.0, reward)  # [B]
        terminated = terminated & ~resets  # [B]
        elapsed_steps = tf.where(resets, 0, state.elapsed_steps + 1)  # [B]
        if self.max_episode_steps is None:
            truncated = tf.zeros_like(terminated)
        else:  # a reset step has 0 elapsed steps, so it is never truncated
            truncated = elapsed_steps >= self.max_episode_steps  # [B]
        next_state = GraphState(physics, elapsed_steps, terminated | truncated)
        return next_state, TimeStep(self.observe(physics), reward, terminated, truncated)

    def _check_moved(self, **given: tuple[Any, tf.DType]) -> None:
        """Raises UsageError where `dynamics` returns something else than [B] of a dtype; once,
        where it is traced."""
        for name, (x, dtype) in given.items():
            if not tf.is_tensor(x) or x.dtype != dtype or x.shape != [self.num_envs]:
                found = f"{x.dtype.name} {x.shape.as_list()}" if tf.is_tensor(x) else type(x).__name__
                raise UsageError(
                    f"{type(self).__name__}.dynamics: {name} is {found}, not {dtype.name} [{self.num_envs}]"
                )

    def _clip(self, action: Nest) -> Nest:
        if isinstance(self.action_space, spaces.Box):
            return tf.clip_by_value(action, self.action_space.low, self.action_space.high)
        return action


def check_graph_env(env_id: str, env: object) -> None:
    """Raises UsageError where a registered environment lacks a part of `GraphEnv`, which it names."""
    if not isinstance(env, GraphEnv):
        raise UsageError(f"environment {env_id}: {type(env).__name__} is not derived from {BASE}")
    kind = type(env)
    lacking = [
        f"{part}()"
        for part in ("initial", "dynamics", "observe")
        if getattr(kind, part) is getattr(GraphEnv, part) and kind.reset is GraphEnv.reset
    ]
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name, None), spaces.Space):
            lacking.append(name)
    if lacking:
        raise UsageError(f"environment {env_id}: {kind.__name__} lacks {', '.join(lacking)} (see {BASE})")
    space = env.action_space
    if np.any(getattr(space, "start", 0)):
        raise UsageError(f"environment {env_id}: in the graph actions count from 0, {space} does not")
    if isinstance(space, spaces.Box) and not np.issubdtype(space.dtype, np.floating):
        raise UsageError(f"environment {env_id}: in the graph actions of a Box are floats, {space} is not")


def merge_resets(resets: Tensor, fresh: Nest, moved: Nest) -> Nest:
    """Returns `fresh` where an environment resets, `moved` elsewhere; resets [B], the others [B, ...]."""

    def merge(new: Tensor, old: Tensor) -> Tensor:
        return tf.where(tf.reshape(resets, [-1] + [1] * (old.shape.rank - 1)), new, old)

    return tf.nest.map_structure(merge, fresh, moved)
