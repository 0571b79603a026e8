"""What is played beside data: both parts of each batch, and whose priorities are whose."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.data.dataset import Dataset as Data
from rl.errors import UsageError
from rl.hparams.dqn import DQNHParams
from rl.memory.mixed import Mixed
from rl.memory.prioritized import Prioritized
from rl.memory.spec import MemorySpec
from rl.memory.uniform import Uniform
from rl.ops import random
from rl.types import Trajectory

SEEN, ACTS = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(10)
ZERO = tf.constant(0, tf.int64)


def memory(kind=Uniform, **hparams):
    """Data whose actions are 9, in eight steps."""
    reward, never = np.ones(8, np.float32), np.zeros(8, bool)
    last = np.arange(8) == 7
    seen = np.zeros((9, 1), np.float32)
    data = Data(seen, np.full(8, 9), reward, never, last, np.array([8]), SEEN, ACTS)
    hparams = {"batch_size": 8, "min_replay_size": 4, "replay_capacity": 64, "train_steps": 10} | hparams
    made = DQNHParams(env="Test-v0", data="x", **hparams)
    return Mixed(kind, MemorySpec(SEEN, ACTS, 2, 4, data=data), made)


def play(made, steps=4):
    """Adds a rollout of two environments whose actions are 1."""
    flags = tf.zeros([steps, 2], tf.bool)
    seen, action = tf.zeros([steps + 1, 2, 1]), tf.ones([steps, 2], tf.int32)
    made.add(Trajectory(seen, action, tf.ones([steps, 2]), flags, flags, tf.ones([steps, 2]), {}))


@pytest.mark.parametrize(("share", "played"), [(0.5, 4), (0.25, 6)])
def test_each_batch_has_its_share_of_data(share, played):
    made = memory(data_share=share)
    assert not bool(made.can_sample())
    play(made)
    assert bool(made.can_sample())
    batch = made.sample(random.key(0), ZERO)
    np.testing.assert_array_equal(batch.action, [1] * played + [9] * (8 - played))
    assert all(len(each) == 8 for each in tf.nest.flatten(batch))


def test_each_part_gets_its_own_priorities():
    made = memory(Prioritized, prioritized=True, priority_exponent=1.0, priority_epsilon=1e-6)
    play(made)
    batch = made.sample(random.key(0), ZERO)
    made.update_priorities(batch, tf.constant([2.0] * 4 + [5.0] * 4))
    for part, index, value in ((made.played, batch.index[:4], 2.0), (made.data, batch.index[4:], 5.0)):
        np.testing.assert_allclose(part.tree.leaves()[index.numpy()], value, rtol=1e-5)
        assert part.tree.leaves().max() == pytest.approx(value, rel=1e-5)
    assert {"data/largest_leaf", "largest_leaf"} <= made.variables.keys()


def test_the_smallest_priority_of_one_part_does_not_make_the_whole_part_count_less():
    """Sample weights are (N P)^-beta of each part, over the largest of the whole batch."""
    made = memory(Prioritized, prioritized=True, priority_exponent=1.0, importance_sampling_exponent=0.5)
    play(made)
    made.data.tree.set(tf.range(8), tf.constant([0.5] * 4 + [5.0] * 4))
    batch = made.sample(random.key(0), ZERO)  # one of the least likely among them
    leaves = [part.tree.leaves() for part in (made.played, made.data)]
    index = batch.index.numpy()
    likely = [
        each[of] / each.sum() * (each > 0).sum()
        for each, of in zip(leaves, (index[:4], index[4:]), strict=True)
    ]
    expected = np.concatenate(likely) ** -0.5
    np.testing.assert_allclose(batch.sample_weight, expected / expected.max(), rtol=1e-5)
    assert expected[:4].max() < expected[4:].max()  # the largest is of the data


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_part_that_is_nothing_is_refused(share):
    with pytest.raises(UsageError, match="both need some"):
        memory(data_share=share)
