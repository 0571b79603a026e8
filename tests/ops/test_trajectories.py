"""Trajectories that end where they are, for memories that get them from several workers."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops.trajectories import augmented, closed, side_by_side
from rl.types import Trajectory


def trajectory(terminated, truncated, mask):
    """Two steps of two environments; observations count 0, 1 ..., rewards 1, 2 ..."""
    flags = [tf.cast(each, tf.bool) for each in (terminated, truncated)]
    return Trajectory(
        tf.reshape(tf.range(6.0), [3, 2, 1]),
        tf.constant([[0, 1], [1, 0]]),
        tf.constant([[1.0, 2.0], [3.0, 4.0]]),
        *flags,
        tf.constant(mask, tf.float32),
        {"log_prob": tf.constant([[-1.0, -2.0], [-3.0, -4.0]])},
    )


def test_an_augmented_reward_is_of_both_observations_and_0_where_nothing_was_done():
    # 10 + 0.5 * 4 - 1 = 11; the second row is no step.
    whole = trajectory([[0, 0], [0, 0]], [[0, 0], [0, 0]], [[1, 1], [0, 0]])
    whole = whole._replace(observation=tf.constant([[[1.0]] * 2, [[4.0]] * 2, [[6.0]] * 2]))
    whole = whole._replace(reward=tf.constant([[10.0, 10.0], [20.0, 20.0]]))

    def augment(now, action, reward, following, terminated, gamma):
        return reward + gamma * following[..., 0] - now[..., 0]

    np.testing.assert_array_equal(augmented(whole, augment, 0.5), [[11.0, 11.0], [0.0, 0.0]])


def test_a_running_episode_is_truncated_and_a_row_that_is_no_step_follows():
    found = closed(trajectory([[0, 0], [0, 1]], [[0, 0], [0, 0]], [[1, 1], [1, 1]]))
    np.testing.assert_array_equal(found.mask, [[1, 1], [1, 1], [0, 0]])
    np.testing.assert_array_equal(found.reward, [[1, 2], [3, 4], [0, 0]])
    np.testing.assert_array_equal(found.terminated, [[0, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(found.truncated, [[0, 0], [1, 0], [0, 0]])  # not what terminated
    np.testing.assert_array_equal(found.observation[:, :, 0], [[0, 1], [2, 3], [4, 5], [4, 5]])
    assert found.action.shape == (3, 2) and found.extras["log_prob"].shape == (3, 2)


def test_the_ignored_step_of_an_autoreset_ends_nothing():
    found = closed(trajectory([[1, 0], [0, 0]], [[0, 1], [0, 0]], [[1, 1], [0, 0]]))
    np.testing.assert_array_equal(found.truncated, [[0, 1], [0, 0], [0, 0]])
    np.testing.assert_array_equal(found.mask, [[1, 1], [0, 0], [0, 0]])


def test_n_step_returns_end_at_the_row_that_was_reached():
    from types import SimpleNamespace

    from gymnasium import spaces

    from rl.memory.spec import MemorySpec
    from rl.memory.uniform import Uniform

    box = spaces.Box(-9.0, 9.0, (1,), np.float32)
    hparams = SimpleNamespace(n_step=3, gamma=0.5, batch_size=4, min_replay_size=1, replay_capacity=24)
    memory = Uniform(MemorySpec(box, spaces.Discrete(2), 2, 3), hparams)
    for _ in range(3):  # as from three workers
        memory.add(closed(trajectory([[0, 0], [0, 0]], [[0, 0], [0, 0]], [[1, 1], [1, 1]])))
    memory.check_valid()
    batch = memory.transitions(tf.constant([0, 2]), tf.ones([2]), tf.ones([2]))  # of the first environment
    np.testing.assert_allclose(batch.reward, [1.0 + 0.5 * 3.0, 3.0])
    np.testing.assert_allclose(batch.discount, [0.25, 0.5])
    np.testing.assert_allclose(batch.next_observation, [[4.0], [4.0]])


def test_parts_of_a_trajectory_stand_side_by_side_each_with_the_observation_after_it():
    whole = trajectory([[1, 0], [0, 0]], [[0, 0], [0, 1]], [[1, 1], [0, 1]])
    found = side_by_side(whole, 2)
    np.testing.assert_array_equal(found.observation[:, :, 0], [[0, 1, 2, 3], [2, 3, 4, 5]])
    np.testing.assert_array_equal(found.reward, [[1, 2, 3, 4]])
    np.testing.assert_array_equal(found.action, [[0, 1, 1, 0]])
    np.testing.assert_array_equal(found.terminated, [[1, 0, 0, 0]])
    np.testing.assert_array_equal(found.truncated, [[0, 0, 0, 1]])
    np.testing.assert_array_equal(found.mask, [[1, 1, 0, 1]])
    np.testing.assert_array_equal(found.extras["log_prob"], [[-1, -2, -3, -4]])
    same = side_by_side(whole, 1)
    np.testing.assert_array_equal(same.observation, whole.observation)
    np.testing.assert_array_equal(same.reward, whole.reward)
