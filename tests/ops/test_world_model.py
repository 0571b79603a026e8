"""Parts of world models' losses against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import world_model as wm


def test_symlog_is_a_signed_logarithm_and_symexp_its_inverse():
    x = tf.constant([-6.389056, -1.0, 0.0, 1.718282, 1e6])  # e^2 - 1, e - 1
    np.testing.assert_allclose(wm.symlog(x), [-2.0, -0.693147, 0.0, 1.0, 13.815512], rtol=1e-5)
    np.testing.assert_allclose(
        wm.symexp(tf.constant([-2.0, 0.0, 1.0])), [-6.389056, 0.0, 1.718282], rtol=1e-5
    )
    np.testing.assert_allclose(wm.symexp(wm.symlog(x)), x, rtol=1e-5)


def test_twohot_divides_a_symlog_between_its_neighbours():
    atoms = wm.bins(5, 2.0)  # -2, -1, 0, 1, 2
    # symlogs: 0, 1/4, -3/2, and one beyond the last
    x = tf.constant([0.0, np.expm1(0.25), -np.expm1(1.5), 100.0], tf.float32)
    expected = [[0, 0, 1, 0, 0], [0, 0, 0.75, 0.25, 0], [0.5, 0.5, 0, 0, 0], [0, 0, 0, 0, 1]]
    np.testing.assert_allclose(wm.twohot(x, atoms), expected, atol=1e-6)
    assert wm.bins(255, 20.0)[[0, 127, 254]].tolist() == [-20.0, 0.0, 20.0]


def test_the_mean_of_bins_is_the_symexp_of_their_mean():
    atoms = wm.bins(5, 2.0)
    logits = tf.math.log([[0.0, 0.0, 0.75, 0.25, 0.0], [0.2] * 5])
    np.testing.assert_allclose(wm.twohot_mean(logits, atoms), [0.2840254, 0.0], atol=1e-6)  # e^0.25 - 1
    np.testing.assert_allclose(wm.twohot_mean(tf.zeros([2, 255]), wm.bins(255, 20.0)), [0.0, 0.0], atol=1e-5)


def test_a_hundredth_of_every_distribution_is_uniform():
    probs = tf.exp(wm.mixed_logits(tf.constant([[0.0, -1e9], [0.0, 0.0]])))
    np.testing.assert_allclose(probs, [[0.995, 0.005], [0.5, 0.5]], rtol=1e-5)


def test_a_sample_has_the_gradient_of_the_probabilities():
    logits = tf.constant([[np.log(0.2), np.log(0.8)]], tf.float32)
    for noise, chosen in ((tf.zeros([1, 2]), [0, 1]), (tf.constant([[9.0, 0.0]]), [1, 0])):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            sample = wm.straight_through(tf.nn.log_softmax(logits), noise)
            first = sample[0, 0]
        np.testing.assert_array_equal(sample, [chosen])
        # of softmax: p_0 (1 - p_0), -p_0 p_1
        np.testing.assert_allclose(tape.gradient(first, logits), [[0.16, -0.16]], rtol=1e-5)


def log_probs(*rows):
    return tf.math.log(tf.constant([[row] for row in rows], tf.float32))  # [N, 1, K]


def test_kl_is_summed_over_the_variables():
    p, q = (tf.math.log(tf.constant([[x, x]], tf.float32)) for x in ([0.5, 0.5], [0.25, 0.75]))
    np.testing.assert_allclose(wm.categorical_kl(p, q), [2 * 0.1438410], rtol=1e-5)  # 0.5 ln 2 + 0.5 ln 2/3


def test_the_kl_is_balanced_and_free_below_a_nat():
    p, q = log_probs([0.5, 0.5], [0.99, 0.01]), log_probs([0.25, 0.75], [0.01, 0.99])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((p, q))
        loss, kl = wm.balanced_kl(p, q, 1.0, 0.1, 1.0)
    # 0.98 ln 99 = 4.503217; the first is below the free nat: 1.0 + 0.1
    np.testing.assert_allclose(kl, [0.1438410, 4.503217], rtol=1e-5)
    np.testing.assert_allclose(loss, [1.1, 1.1 * 4.503217], rtol=1e-5)
    by_posterior, by_prior = tape.gradient(loss, p), tape.gradient(loss, q)
    assert not np.any(by_posterior[0]) and not np.any(by_prior[0])
    np.testing.assert_allclose(by_prior[1], [[-0.99, -0.01]], rtol=1e-5)  # dynamics: -p
    # representation: 0.1 p (ln p - ln q + 1)
    np.testing.assert_allclose(by_posterior[1], [[0.099 * 5.595120, 0.001 * -3.595120]], rtol=1e-4)


@pytest.mark.parametrize("shares", [(0.05, 0.95), (0.0, 0.5, 1.0)])
def test_percentiles_are_numpys(shares):
    x = np.random.default_rng(0).normal(size=(3, 7)).astype(np.float32)
    np.testing.assert_allclose(wm.percentiles(tf.constant(x), shares), np.quantile(x, shares), rtol=1e-5)
