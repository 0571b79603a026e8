"""The episodes of a rollout: which steps are of the first ones."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops.episodes import first_returns, of_first


def test_the_first_episode_of_each_environment_counts_alone() -> None:
    ended = tf.constant([[0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 1]]) > 0
    np.testing.assert_array_equal(of_first(ended), [[1, 1, 1], [1, 1, 0], [0, 1, 0], [0, 1, 0]])
    reward = tf.constant([[1.0, 2.0, 3.0]] * 4)
    np.testing.assert_array_equal(first_returns(reward, ended), [2.0, 8.0, 3.0])
