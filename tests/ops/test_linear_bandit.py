"""Linear bandits: posteriors in numpy, and a case by hand."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops import linear_bandit


def test_one_arm_of_one_feature_by_hand():
    # A = 1 + 2^2 + 1^2 = 6, b = 2 * 3 + 1 * 0 = 6: mean 1, deviation of x = 3: 3 / sqrt(6).
    x, reward = tf.constant([[2.0], [1.0], [5.0]]), tf.constant([3.0, 0.0, 9.0])
    mask, arm = tf.constant([1.0, 1.0, 0.0]), tf.zeros([3], tf.int32)
    precision, b = linear_bandit.observed(x, arm, reward, mask, 1)
    np.testing.assert_allclose([precision[0, 0, 0], b[0, 0]], [5.0, 6.0])
    mean, root = linear_bandit.posterior(1.0 + precision, b)
    expected, deviation = linear_bandit.scores(tf.constant([[3.0]]), mean, root)
    np.testing.assert_allclose([expected[0, 0], deviation[0, 0]], [3.0, 3.0 / 6.0**0.5], rtol=1e-6)


def test_posteriors_and_scores_equal_numpys():
    rng = np.random.default_rng(0)
    x, reward = rng.normal(size=(40, 3)).astype("f4"), rng.normal(size=40).astype("f4")
    arm, mask = rng.integers(0, 2, 40).astype("i4"), (rng.random(40) < 0.8).astype("f4")
    precision, b = linear_bandit.observed(*map(tf.constant, (x, arm, reward, mask)), 2)
    mean, root = linear_bandit.posterior(precision + tf.eye(3), b)
    expected, deviation = linear_bandit.scores(tf.constant(x), mean, root)
    for k in range(2):
        mine = x[(arm == k) & (mask > 0)], reward[(arm == k) & (mask > 0)]
        inverse = np.linalg.inv(np.eye(3) + mine[0].T @ mine[0])
        theta = inverse @ mine[0].T @ mine[1]
        np.testing.assert_allclose(mean[k], theta, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(expected[:, k], x @ theta, rtol=1e-3, atol=1e-4)
        spread = np.sqrt(np.einsum("ni,ij,nj->n", x, inverse, x))
        np.testing.assert_allclose(deviation[:, k], spread, rtol=1e-4)


def test_large_features_of_which_one_is_the_sum_of_others_have_a_posterior():
    # Products of 1e6 in sums of 1e9: the prior's 1 is less than float32 rounds away; float64 keeps it.
    rng = np.random.default_rng(0)
    pair = rng.uniform(0.0, 1000.0, (2000, 2))
    x = np.concatenate([pair, pair.sum(1, keepdims=True), np.ones((2000, 1))], 1)
    reward = x @ [0.002, -0.001, 0.0, 0.5]
    arguments = tf.constant(x, tf.float32), tf.zeros([2000], tf.int32), tf.constant(reward, tf.float32)
    precision, b = linear_bandit.observed(*arguments, tf.ones([2000]), 1)
    expected, deviation = linear_bandit.scores(
        arguments[0], *linear_bandit.posterior(precision + tf.eye(4), b)
    )
    np.testing.assert_allclose(expected[:, 0], reward, atol=0.05)
    inverse = np.linalg.inv(np.eye(4) + x.T @ x)
    np.testing.assert_allclose(
        deviation[:, 0], np.sqrt(np.einsum("ni,ij,nj->n", x, inverse, x)), rtol=0.1, atol=1e-3
    )
