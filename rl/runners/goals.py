"""The reward of goals for `memory=hindsight`: an in-graph environment's own, or by a distance, checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.envs.graph.base import BASE, GraphEnv
from rl.envs.make import make_gym_env
from rl.errors import UsageError
from rl.hparams.hparams import HParams, refuse_given
from rl.memory.contract import HindsightHParams
from rl.memory.hindsight import Hindsight
from rl.registry import check_hparams
from rl.runners.parts import memory_class, memory_for
from rl.spaces import ACHIEVED_GOAL, DESIRED_GOAL, space_leaves, space_spec
from rl.types import Tensor

GoalReward = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # as `GraphEnv.goal_reward`

EPISODES, STEPS = 8, 20  # whose desired goals are tried; whose rewards are
NEAR_AND_FAR = (0.0, 0.5, 0.99, 1.01, 2.0, 10.0)  # distances that are tried, in tolerances
SHARES = (0.0, 0.05, 0.3, 1.0)  # likewise, of goals that are not floats: of their numbers, another goal's


@dataclass(frozen=True)
class WithinTolerance:
    """A reward of goals that are reached within a distance."""

    tolerance: float
    rewards: tuple[float, float]  # elsewhere, and where the goal is reached
    terminates: bool  # whether reaching it ends the episode

    def __call__(self, achieved_goal: Tensor, desired_goal: Tensor) -> tuple[Tensor, Tensor]:
        """Returns reward [N] float32 and terminated [N] bool for goals [N, ...]."""
        offset = tf.cast(achieved_goal, tf.float32) - tf.cast(desired_goal, tf.float32)
        distance = tf.norm(tf.reshape(offset, [offset.shape[0], -1]), axis=-1)  # [N]
        reached = distance < self.tolerance
        return tf.where(reached, self.rewards[1], self.rewards[0]), reached & self.terminates


def check_goals_here(hparams: HParams, experience: str, workers: Any) -> None:
    """Raises UsageError where `memory=hindsight` is not for that algorithm, rewards could not be computed
    anew for another goal, or rollouts come from workers (None: there are none)."""
    memory_for(hparams, experience)
    check_hparams(hparams, HindsightHParams, "memory hindsight")
    values = hparams.flat()
    if values["n_step"] > 1:
        raise UsageError(
            f"n_step={values['n_step']}: memory hindsight computes the reward of single steps anew, take "
            "n_step=1"
        )
    others = "prioritized", "reward_augmentation", "previous_action_reward"
    given = [name for name in others if name in values]
    refuse_given(hparams, "has memory=hindsight, which knows the rewards of goals alone", *given)
    if workers is not None:
        raise UsageError(
            "memory hindsight: rollouts of workers are stored apart from what follows them, where later "
            "goals are: leave --num_workers out"
        )


def goal_reward_of(agent: Agent[Any], env: Any) -> GoalReward | None:
    """Returns the reward of goals that `memory=hindsight` computes anew; None with another memory.

    Args:
        agent: whose hparams name the memory.
        env: that is trained in, a `GraphEnv` or `HostEnv`.

    Raises:
        UsageError: observations have no goals, or the environment says no reward of theirs or another one
            than `goal_tolerance` gives.
    """
    hparams = agent.hparams
    if not issubclass(memory_class(agent), Hindsight):
        return None
    goals = _goal_spaces(hparams.env, env.observation_space)
    if env.backend == "graph":
        return _checked_in_graph(env, goals[0], hparams.env)
    options = hparams.env_kwargs | hparams.train_env_kwargs
    own = make_gym_env(hparams.env, options, wrappers=hparams.env_wrappers)
    try:
        return _held_to(own, hparams.env, hparams.goal_tolerance)
    finally:
        own.close()


def _goal_spaces(env_id: str, space: spaces.Space) -> list[spaces.Space]:
    """Returns the spaces of achieved and desired goals, which are alike."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {}
    missing = [name for name in (ACHIEVED_GOAL, DESIRED_GOAL) if name not in parts]
    if missing:
        said = f"Dict({', '.join(parts)})" if isinstance(space, spaces.Dict) else str(space)
        raise UsageError(
            f"memory hindsight: {env_id} observes {said}, without {' and '.join(missing)} (GoalEnv of "
            "Gymnasium-Robotics): take memory=uniform, or an environment with goals"
        )
    found = [parts[ACHIEVED_GOAL], parts[DESIRED_GOAL]]
    nested = any(isinstance(each, spaces.Dict | spaces.Tuple) for each in found)
    if nested or space_leaves(found[0]) != space_leaves(found[1]):
        raise UsageError(
            f"memory hindsight: {env_id} has an {ACHIEVED_GOAL} {found[0]} and a {DESIRED_GOAL} {found[1]}: "
            "they must be arrays of one shape and type"
        )
    return found


def _checked_in_graph(env: GraphEnv, goals: spaces.Space, env_id: str) -> GoalReward:
    """Returns the environment's `goal_reward`, once it was called."""
    if type(env).goal_reward is GraphEnv.goal_reward:
        raise UsageError(
            f"memory hindsight: {type(env).__name__} ({env_id}) has no goal_reward(achieved_goal, "
            f"desired_goal), see {BASE}"
        )
    spec = space_spec(goals, (2,))
    zeros = tf.zeros(spec.shape, spec.dtype)
    reward, terminated = env.goal_reward(zeros, zeros)
    for name, x, dtype in (("reward", reward, tf.float32), ("terminated", terminated, tf.bool)):
        if x.dtype != dtype or x.shape != [2]:
            raise UsageError(
                f"{type(env).__name__}.goal_reward: {name} is {x.dtype.name} {x.shape.as_list()}, not "
                f"{dtype.name} [2] for 2 goals"
            )
    return env.goal_reward


def _held_to(env: gymnasium.Env, env_id: str, tolerance: float) -> WithinTolerance:
    """Returns the reward within a tolerance, after comparing it with what the environment says of pairs of
    goals, and pays for steps."""
    try:
        compute_reward = env.get_wrapper_attr("compute_reward")
    except AttributeError as error:
        raise UsageError(
            f"memory hindsight: {env_id} has no compute_reward(achieved_goal, desired_goal, info), as "
            "GoalEnv of Gymnasium-Robotics has"
        ) from error
    has_ends = env.has_wrapper_attr("compute_terminated")
    compute_terminated = env.get_wrapper_attr("compute_terminated") if has_ends else lambda *_: False
    told = [
        (
            _distance(*pair),
            float(compute_reward(*pair, {})) + 0.0,  # not -0
            bool(compute_terminated(*pair, {})),
        )
        for pair in _pairs(env, tolerance)
    ]
    nearest, farthest = min(told), max(told)
    rule = WithinTolerance(tolerance, (farthest[1], nearest[1]), nearest[2])
    for distance, reward, ends in (*told, *_steps(env)):
        within = distance < tolerance
        given = rule.rewards[within], rule.terminates and within
        if reward != given[0] or ends not in (None, given[1]):
            said, instead = ("", "") if ends is None else (f", terminated {ends}", f" and {given[1]}")
            raise UsageError(
                f"memory hindsight, goal_tolerance={tolerance:g}: at a distance of {distance:g} {env_id} "
                f"gives reward {reward:g}{said}, not {given[0]:g}{instead}: take the distance within which "
                "its goals are reached, if that is all that its reward tells"
            )
    return rule


def _distance(achieved: np.ndarray, desired: np.ndarray) -> float:
    return float(np.linalg.norm(np.float64(achieved) - np.float64(desired)))


def _pairs(env: gymnasium.Env, tolerance: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns goals that are achieved and desired, near each other and far."""
    assert isinstance(env.observation_space, spaces.Dict)
    of_floats = env.observation_space[DESIRED_GOAL].dtype.kind == "f"
    rng = np.random.default_rng(0)
    goals = [env.reset(seed=i)[0][DESIRED_GOAL] for i in range(EPISODES)]
    found = []
    for desired, other in zip(goals, goals[1:] + goals[:1], strict=True):
        if of_floats:
            way = rng.normal(size=np.shape(desired))
            way *= tolerance / np.linalg.norm(way)
            found += [((desired + far * way).astype(desired.dtype), desired) for far in NEAR_AND_FAR]
        for share in SHARES:
            found.append((np.where(rng.random(np.shape(desired)) < share, other, desired), desired))
    return found


def _steps(env: gymnasium.Env) -> Iterator[tuple[float, float, None]]:
    """Returns how far steps of random actions end from their goals, and what they are paid."""
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(STEPS):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        yield _distance(observation[ACHIEVED_GOAL], observation[DESIRED_GOAL]), float(reward), None
        if terminated or truncated:
            env.reset()
