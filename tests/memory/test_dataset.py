"""The memory that files fill: every transition as likely as the next, n-step rewards by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.data.dataset import Dataset as Data
from rl.errors import UsageError
from rl.hparams.dqn import DQNHParams
from rl.memory.dataset import Dataset, n_step_columns
from rl.memory.registry import get_memory
from rl.memory.spec import MemorySpec
from rl.ops import random

SEEN, ACTS = spaces.Box(-np.inf, np.inf, (1,), np.float32), spaces.Discrete(10)
# Two episodes: three steps to a terminal state, then two that are cut. Observations are numbered throughout.
REWARD = np.array([1.0, 2.0, 4.0, 8.0, 16.0], np.float32)
TERMINATED = np.array([0, 0, 1, 0, 0], bool)
TRUNCATED = np.array([0, 0, 0, 0, 1], bool)
LENGTHS = np.array([3, 2])


def memory(**hparams):
    observation = np.arange(7, dtype=np.float32)[:, None]
    data = Data(observation, np.arange(5), REWARD, TERMINATED, TRUNCATED, LENGTHS, SEEN, ACTS)
    return Dataset(MemorySpec(SEEN, ACTS, 1, 1, data=data), DQNHParams(memory="dataset", **hparams))


def sampled(made, draws=40, step=0):
    batches = [made.sample(random.key(i), tf.constant(step, tf.int64)) for i in range(draws)]
    return {
        name: np.concatenate([np.array(getattr(each, name)) for each in batches])
        for name in batches[0]._fields
    }


@pytest.mark.parametrize(
    ("n", "total", "discount", "following"),
    [
        (1, [1.0, 2.0, 4.0, 8.0, 16.0], [0.5, 0.5, 0.0, 0.5, 0.5], [1, 2, 3, 5, 6]),
        (2, [2.0, 4.0, 4.0, 16.0, 16.0], [0.25, 0.0, 0.0, 0.25, 0.5], [2, 3, 3, 6, 6]),
        (100, [3.0, 4.0, 4.0, 16.0, 16.0], [0.0, 0.0, 0.0, 0.25, 0.5], [3, 3, 3, 6, 6]),
    ],
)
def test_n_steps_end_with_their_episode_and_only_terminal_states_end_the_return(
    n, total, discount, following
):
    found = n_step_columns(REWARD, TERMINATED, LENGTHS, n, 0.5)
    np.testing.assert_array_equal(found[0], np.array(total, np.float32))
    np.testing.assert_array_equal(found[1], np.array(discount, np.float32))
    np.testing.assert_array_equal(found[2], [0, 1, 2, 4, 5])
    np.testing.assert_array_equal(found[3], following)
    np.testing.assert_array_equal(found[4], np.minimum(np.arange(5) + n, [2, 2, 2, 4, 4]))


def test_a_transition_is_what_was_played_and_each_is_as_likely_as_the_next():
    batch = sampled(memory(batch_size=100, gamma=0.5))
    index = batch["index"]
    np.testing.assert_array_equal(batch["action"], index)
    np.testing.assert_array_equal(batch["observation"][:, 0], np.array([0, 1, 2, 4, 5])[index])
    np.testing.assert_array_equal(batch["next_observation"][:, 0], np.array([1, 2, 3, 5, 6])[index])
    np.testing.assert_array_equal(batch["reward"], REWARD[index])
    assert (batch["mask"] == 1.0).all() and (batch["sample_weight"] == 1.0).all()
    share = np.bincount(index, minlength=5) / len(index)
    np.testing.assert_allclose(share, 0.2, atol=4.0 * np.sqrt(0.2 * 0.8 / len(index)))


def test_by_priority_errors_decide_and_weights_make_up_for_it():
    made = memory(
        batch_size=100, prioritized=True, priority_exponent=1.0, priority_epsilon=1e-9, train_steps=10
    )
    assert made.variables
    first = made.sample(random.key(0), tf.constant(0, tf.int64))
    assert set(np.array(first.index)) == set(range(5))
    priorities = np.array([0.0, 1.0, 0.0, 3.0, 0.0], np.float32)
    made.update_priorities(first, tf.gather(tf.constant(priorities), first.index))
    batch = sampled(made, step=10)
    assert set(batch["index"]) == {1, 3}
    assert np.mean(batch["index"] == 3) == pytest.approx(0.75, abs=0.02)
    weight = {int(i): w for i, w in zip(batch["index"], batch["sample_weight"], strict=True)}
    assert weight[1] == pytest.approx(1.0) and weight[3] == pytest.approx(1.0 / 3.0, rel=1e-4)


def test_it_is_registered_takes_nothing_in_and_keeps_no_data_in_checkpoints():
    made = memory()
    assert get_memory("dataset") is Dataset
    assert (
        made.variables == {} and made.appended() == {} and int(made.size()) == 5 and bool(made.can_sample())
    )
    with pytest.raises(TypeError, match="filled from files"):
        made.add(None)
    with pytest.raises(UsageError, match="name them by data=DIR"):
        Dataset(MemorySpec(SEEN, ACTS, 1, 1), DQNHParams(memory="dataset"))
