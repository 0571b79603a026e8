"""Value targets and losses, policy losses, against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import policy, value
from rl.parallel import replicas


def test_select_takes_the_value_of_the_action():
    found = value.select(tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), tf.constant([2, 0]))
    np.testing.assert_array_equal(found, [3.0, 4.0])


@pytest.mark.parametrize(
    ("delta", "error", "loss"),
    [
        # |e| <= delta: e^2 / 2; beyond: delta (|e| - delta / 2).
        (1.0, [-3.0, -1.0, -0.5, 0.0, 0.5, 2.0], [2.5, 0.5, 0.125, 0.0, 0.125, 1.5]),
        (2.0, [-3.0, -2.0, 1.0, 3.0], [4.0, 2.0, 0.5, 4.0]),
    ],
)
def test_huber_is_quadratic_within_delta_and_linear_beyond(delta, error, loss):
    np.testing.assert_allclose(value.huber(tf.constant(error), delta), loss)


def test_the_derivative_of_huber_is_the_clipped_error():
    error = tf.constant([-3.0, -1.0, -0.25, 0.0, 0.5, 7.0])
    with tf.GradientTape() as tape:
        tape.watch(error)
        loss = value.huber(error, 1.0)
    np.testing.assert_allclose(tape.gradient(loss, error), np.clip(error, -1.0, 1.0))


def test_clipped_surrogate_takes_the_pessimistic_side():
    ratio = tf.constant([1.5, 0.5, 1.5, 0.5, 1.1])
    advantage = tf.constant([2.0, 2.0, -2.0, -2.0, 2.0])
    # -min(r A, clip(r, 0.8, 1.2) A):
    #   -min(3, 2.4)   -min(1, 1.6)   -min(-3, -2.4)   -min(-1, -1.6)   -min(2.2, 2.2)
    found = policy.clipped_surrogate(ratio, advantage, 0.2)
    np.testing.assert_allclose(found, [-2.4, -1.0, 3.0, 1.6, -2.2], rtol=1e-6)


def test_clipped_surrogate_stops_pushing_once_the_ratio_has_moved_far_enough():
    ratio = tf.constant([1.5, 0.5, 1.5, 0.5])
    with tf.GradientTape() as tape:
        tape.watch(ratio)
        loss = policy.clipped_surrogate(ratio, tf.constant([2.0, 2.0, -2.0, -2.0]), 0.2)
    np.testing.assert_allclose(tape.gradient(loss, ratio), [0.0, -2.0, 2.0, 0.0])


def test_value_loss_without_clipping_is_half_the_squared_error():
    found = policy.clipped_value_loss(tf.constant([3.0]), tf.constant([1.0]), tf.constant([5.0]), None)
    np.testing.assert_allclose(found, [2.0])


def test_clipped_value_loss_takes_the_larger_of_both_errors():
    value_, old, target = tf.constant([3.0, 2.0, 0.8]), tf.constant([1.0, 1.0, 1.0]), tf.constant(2.0)
    # clipped values 1.5, 1.5, 0.8; max(1, 0.25) / 2, max(0, 0.25) / 2, max(1.44, 1.44) / 2
    found = policy.clipped_value_loss(value_, old, target, 0.5)
    np.testing.assert_allclose(found, [0.5, 0.125, 0.72], rtol=1e-6)


def test_approximate_kl_at_literal_ratios():
    # (r - 1) - log r at r = 1, 2, 1/2
    found = policy.approximate_kl(tf.math.log([1.0, 2.0, 0.5]))
    np.testing.assert_allclose(found, [0.0, 1.0 - np.log(2.0), np.log(2.0) - 0.5], rtol=1e-5, atol=1e-7)


def test_approximate_kl_is_in_the_mean_the_kl_divergence():
    old, new = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.2, 0.6])
    mean = np.sum(old * policy.approximate_kl(tf.math.log(new / old)))
    np.testing.assert_allclose(mean, np.sum(old * np.log(old / new)), rtol=1e-6)


def test_masked_mean_leaves_out_the_masked_and_is_0_where_nothing_is_left():
    x = tf.constant([1.0, 3.0, 100.0])
    assert policy.masked_mean(x, tf.constant([1.0, 1.0, 0.0])) == 2.0
    assert policy.masked_mean(x, tf.zeros(3)) == 0.0


def test_the_mean_of_all_learners_counts_each_by_what_it_leaves_unmasked(monkeypatch):
    # Here a mean of 2 over 3 examples, at the other learner 6 over 1: (2 * 3 + 6 * 1) / (3 + 1) = 3.
    mask = tf.constant([1.0, 1.0, 0.0, 1.0])
    assert policy.mean_of_all(tf.constant(2.0), mask) == 2.0
    assert policy.mean_of_all(tf.constant(2.0), tf.zeros(4)) == 0.0
    others = iter([6.0, 1.0])
    monkeypatch.setattr(replicas, "total", lambda x: x + next(others))
    assert policy.mean_of_all(tf.constant(2.0), mask) == 3.0


def test_standardize_uses_the_statistics_of_the_unmasked():
    # mean 2, variance (1 + 0 + 1) / 3
    x, mask = tf.constant([1.0, 2.0, 3.0, 100.0]), tf.constant([1.0, 1.0, 1.0, 0.0])
    found = policy.standardize(x, mask)
    np.testing.assert_allclose(found[:3], [-np.sqrt(1.5), 0.0, np.sqrt(1.5)], rtol=1e-6)


@pytest.mark.parametrize("mask", [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
def test_standardize_of_equal_values_or_of_nothing_is_finite(mask):
    assert np.isfinite(policy.standardize(tf.constant([4.0, 4.0, 4.0]), tf.constant(mask))).all()
