"""The episodes of a rollout: which steps are of the first ones."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops.episodes import first_returns, of_first, part_returns
from rl.types import Trajectory


def test_the_first_episode_of_each_environment_counts_alone() -> None:
    ended = tf.constant([[0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 1]]) > 0
    np.testing.assert_array_equal(of_first(ended), [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 1, 0]])
    reward = tf.constant([[1.0, 2.0, 3.0]] * 4)
    np.testing.assert_array_equal(first_returns(reward, ended), [2.0, 8.0, 3.0])


def test_in_each_part_the_first_episode_counts_as_far_as_it_was_played() -> None:
    reward = tf.constant([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [4.0, 40.0], [5.0, 50.0], [6.0, 60.0]])
    terminated = tf.constant([[0, 0], [1, 0], [0, 0], [0, 0], [0, 0], [0, 0]]) > 0
    truncated = tf.constant([[0, 0], [0, 0], [0, 0], [0, 1], [0, 0], [0, 0]]) > 0
    mask = tf.constant([[1.0, 1], [1, 1], [0, 1], [1, 1], [1, 0], [1, 1]])
    played = Trajectory(tf.zeros([7, 2, 1]), tf.zeros([6, 2]), reward, terminated, truncated, mask, {})
    np.testing.assert_array_equal(part_returns(played, 2), [[3.0, 60.0], [15.0, 40.0]])
