"""The linear baseline of returns, against literal features and least squares in numpy."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops.baseline import RIDGE, features, fitted


def test_features_are_the_observation_and_time_with_their_powers() -> None:
    found = features(tf.constant([[3.0, -20.0]]), tf.constant([0.5]))
    np.testing.assert_allclose(found, [[3.0, -10.0, 9.0, 100.0, 0.5, 0.25, 0.125, 1.0]])


def test_each_task_is_fitted_by_least_squares_to_what_counts() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 50, 3)) * [1.0, 30.0, 0.1]
    x[..., 2] = 1.0
    target, mask = rng.normal(size=(2, 50)) * 5.0 - 40.0, np.ones((2, 50))
    mask[1, 20:] = 0.0
    target[1, 20:] = 1e6  # counts nowhere
    found = fitted(*(tf.constant(each, tf.float32) for each in (x, target, mask))).numpy()
    for i, count in enumerate((50, 20)):
        own = x[i, :count] / np.sqrt((x[i, :count] ** 2).mean(0))
        more = np.sqrt(RIDGE * count) * np.eye(3)  # ridge: three more equations, 0 on the right
        weights = np.linalg.lstsq(np.r_[own, more], np.r_[target[i, :count], 0.0, 0.0, 0.0], rcond=None)[0]
        np.testing.assert_allclose(found[i, :count], own @ weights, rtol=1e-4)
    assert not found[1, 20:].any()


def test_dependent_and_missing_features_do_no_harm() -> None:
    x = np.zeros((1, 8, 4), np.float32)
    x[..., 0] = np.arange(8)
    x[..., 1] = 2.0 * x[..., 0]
    x[..., 2] = 1.0
    target = 3.0 * x[..., 0] - 2.0
    found = fitted(tf.constant(x), tf.constant(target), tf.ones([1, 8]))
    np.testing.assert_allclose(found, target, atol=0.1)
    assert np.isfinite(fitted(tf.constant(x), tf.constant(target), tf.zeros([1, 8]))).all()
