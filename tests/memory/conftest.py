"""Helpers of the memory tests: small memories and trajectories written out as rows of numbers."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from marked import rest

from rl.memory.registry import get_memory
from rl.memory.spec import MemorySpec
from rl.types import Trajectory


def make_hparams(**changes: Any) -> types.SimpleNamespace:
    values: dict[str, Any] = dict(
        replay_capacity=12,
        min_replay_size=1,
        batch_size=4,
        n_step=1,
        gamma=0.5,
        train_steps=100,
        priority_exponent=0.5,
        importance_sampling_exponent=0.4,
        importance_sampling_exponent_end=1.0,
        priority_epsilon=1e-6,
    )
    assert not set(changes) - set(values), "misspelt hyperparameter"
    return types.SimpleNamespace(**(values | changes))


def make_spec(num_envs: int = 1, rollout_length: int = 1, observation_space: Any = None) -> MemorySpec:
    space = observation_space or gymnasium.spaces.Box(-np.inf, np.inf, [1])
    return MemorySpec(space, gymnasium.spaces.Discrete(100), num_envs, rollout_length)


def make_memory(
    name: str, num_envs: int = 1, rollout_length: int = 1, observation_space: Any = None, **hparams: Any
):
    return get_memory(name)(make_spec(num_envs, rollout_length, observation_space), make_hparams(**hparams))


def rows(first: int, ends: str) -> Trajectory:
    """A trajectory of one environment: row t has observation first + t, action and reward first + t.

    `ends` has one letter per row: "." an ordinary step, "T" terminated, "C" truncated (cut), "r" autoreset
    step.
    """
    count = len(ends)
    number = np.arange(first, first + count + 1)
    column = np.array(list(ends))[:, None]  # [T, 1]
    return Trajectory(
        observation=tf.constant(number[:, None, None], tf.float32),
        action=tf.constant(number[:-1, None], tf.int64),
        reward=tf.constant(np.where(column == "r", 0, number[:-1, None]), tf.float32),
        terminated=tf.constant(column == "T"),
        truncated=tf.constant(column == "C"),
        mask=tf.constant(column != "r", tf.float32),
        extras={},
    )


def random_rows(rng: np.random.Generator, steps: int, envs: int) -> Trajectory:
    """A trajectory [T, B] with episode ends at random, each followed by an autoreset row."""
    ended = np.zeros(envs, bool)
    terminated, truncated, mask = (np.zeros([steps, envs], bool) for _ in range(3))
    for t in range(steps):
        mask[t] = ~ended
        terminated[t] = mask[t] & (rng.random(envs) < 0.15)
        truncated[t] = mask[t] & ~terminated[t] & (rng.random(envs) < 0.1)
        ended = terminated[t] | truncated[t]
    return Trajectory(
        observation=tf.constant(rng.normal(size=[steps + 1, envs, 1]), tf.float32),
        action=tf.constant(rng.integers(0, 100, [steps, envs])),
        reward=tf.constant(rng.normal(size=[steps, envs]) * mask, tf.float32),
        terminated=tf.constant(terminated),
        truncated=tf.constant(truncated),
        mask=tf.constant(mask, tf.float32),
        extras={},
    )


def split_rows(trajectory: Trajectory, lengths: Sequence[int]) -> list[Trajectory]:
    """The same rows as several trajectories of the given lengths."""
    parts, t = [], 0
    for length in lengths:
        observation = tf.nest.map_structure(
            lambda each, t=t, n=length: each[t : t + n + 1], trajectory.observation
        )
        rest = [
            tf.nest.map_structure(lambda each, t=t, n=length: each[t : t + n], x) for x in trajectory[1:6]
        ]
        parts.append(Trajectory(observation, *rest, extras={}))
        t += length
    return parts


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """The statistic of `counts` against expected probabilities, in standard deviations from its mean."""
    expected = counts.sum() * probabilities
    used = expected > 0
    assert not counts[~used].any(), "something of probability 0 was drawn"
    statistic = ((counts[used] - expected[used]) ** 2 / expected[used]).sum()
    freedom = used.sum() - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


@pytest.fixture(params=["eager", *rest("graph"), "xla"])
def compiled(request: pytest.FixtureRequest) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wraps a function for each way of running it."""
    if request.param == "eager":
        return lambda function: function
    return lambda function: tf.function(function, jit_compile=request.param == "xla", autograph=False)
