"""Sequences of data, literally: where they begin, what stands before and after their episode."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.data.dataset import Dataset as Data
from rl.hparams.bc import BCHParams
from rl.hparams.r2d2 import R2D2HParams
from rl.memory.dataset_sequences import DatasetSequences, sequence_columns
from rl.memory.spec import MemorySpec
from rl.ops import random

SEEN, ACTS = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(10)
# Five steps to a terminal state, then two that are cut. Observations and actions are numbered throughout.
REWARD = np.array([1, 2, 4, 8, 16, 32, 64], np.float32)
TERMINATED = np.array([0, 0, 0, 0, 1, 0, 0], bool)
TRUNCATED = np.array([0, 0, 0, 0, 0, 0, 1], bool)
LENGTHS = np.array([5, 2])


def memory(kind=BCHParams, **hparams):
    seen = np.arange(9, dtype=np.float32)[:, None]
    data = Data(seen, np.arange(7), REWARD, TERMINATED, TRUNCATED, LENGTHS, SEEN, ACTS)
    state = (np.zeros([1, 4], np.float32),)
    settings = {"memory": "dataset", "batch_size": 100, "burn_in": 1, "unroll_length": 2} | hparams
    return DatasetSequences(MemorySpec(SEEN, ACTS, 1, 1, state, data=data), kind(**settings))


def test_each_step_is_learned_from_once_after_its_burn_in_and_masked_outside_of_its_episode():
    batch = memory().sample(random.key(0), tf.constant(0, tf.int64))
    found, index = batch.trajectory, np.array(batch.index)
    one = {i: int(np.flatnonzero(index == i)[0]) for i in range(4)}  # where each sequence came first
    assert set(index) == set(one)
    columns = [one[i] for i in range(4)]

    def of(values):
        return np.array(values)[:, columns].T.tolist()

    assert of(found.observation[..., 0]) == [[0, 0, 1, 2], [1, 2, 3, 4], [3, 4, 5, 5], [6, 6, 7, 8]]
    assert of(found.mask) == [[0, 1, 1], [1, 1, 1], [1, 1, 0], [0, 1, 1]]
    assert of(found.action) == [[0, 0, 1], [1, 2, 3], [3, 4, 4], [5, 5, 6]]
    assert of(found.reward) == [[0, 1, 2], [2, 4, 8], [8, 16, 0], [0, 32, 64]]
    assert of(found.terminated) == [[False] * 3, [False] * 3, [False, True, True], [False] * 3]
    assert of(found.truncated) == [[False] * 3, [False] * 3, [False] * 3, [False, False, True]]
    assert found.recurrent_state[0].shape == (100, 4) and not np.any(found.recurrent_state[0])
    assert np.all(np.array(batch.mask) == 1.0) and np.all(np.array(batch.sample_weight) == 1.0)


def test_longer_burn_in_stays_within_the_episode():
    batch = memory(burn_in=4).sample(random.key(0), tf.constant(0, tf.int64))
    third = int(np.flatnonzero(np.array(batch.index) == 1)[0])
    assert np.array(batch.trajectory.observation)[:, third, 0].tolist() == [0, 0, 0, 1, 2, 3, 4]
    assert np.array(batch.trajectory.mask)[:, third].tolist() == [0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("length", [1, 3, 5, 9])
def test_sequences_cover_all_steps_of_all_episodes_once(length):
    lengths = np.array([5, 1, 9, 3])
    first, begin, end, episode = sequence_columns(lengths, length)
    covered = [step for a, b in zip(first, end, strict=True) for step in range(a, min(a + length, b))]
    assert sorted(covered) == list(range(18))
    np.testing.assert_array_equal(begin, np.array([0, 5, 6, 15])[episode])
    np.testing.assert_array_equal(end, np.array([5, 6, 15, 18])[episode])


def test_by_priority_sequences_with_errors_come_more_often():
    made = memory(R2D2HParams, prioritized=True, priority_exponent=1.0, priority_epsilon=1e-9)
    first = made.sample(random.key(0), tf.constant(0, tf.int64))
    made.update_priorities(first, tf.gather(tf.constant([0.0, 1.0, 0.0, 3.0]), first.index))
    drawn = np.array(made.sample(random.key(1), tf.constant(0, tf.int64)).index)
    assert np.bincount(drawn, minlength=4).tolist() == pytest.approx([0, 25, 0, 75], abs=1)
    made.check_valid()


def test_what_an_agent_asks_for_is_told_of_each_step():
    """The window of two steps before each step and of itself, with the sums of the rewards from there on."""
    data = Data(
        np.arange(9, dtype=np.float32)[:, None],
        np.arange(7),
        REWARD,
        TERMINATED,
        TRUNCATED,
        LENGTHS,
        SEEN,
        ACTS,
    )
    spec = MemorySpec(SEEN, ACTS, 1, 1, extras=("return_to_go", "episode_step", "log_prob"), data=data)
    made = DatasetSequences(spec, BCHParams(memory="dataset", batch_size=100, burn_in=2, unroll_length=1))
    batch = made.sample(random.key(0), tf.constant(0, tf.int64))
    assert set(batch.trajectory.extras) == {"return_to_go", "episode_step"}
    found = {int(i): n for n, i in enumerate(batch.index)}
    expected = {  # by the last step: returns-to-go, steps before, mask
        0: ([0, 0, 31], [0, 0, 0], [0, 0, 1]),
        1: ([0, 31, 30], [0, 0, 1], [0, 1, 1]),
        4: ([28, 24, 16], [2, 3, 4], [1, 1, 1]),
        6: ([0, 96, 64], [0, 0, 1], [0, 1, 1]),
    }
    for last, columns in expected.items():
        t, n = batch.trajectory, found[last]
        parts = t.extras["return_to_go"], t.extras["episode_step"], t.mask
        assert tuple(np.array(x)[:, n].tolist() for x in parts) == columns
