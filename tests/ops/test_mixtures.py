"""Mixtures of normal distributions against numbers worked by hand and scipy's densities."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from scipy import special, stats

from rl.ops import mixtures, random


def test_one_component_is_a_normal_distribution():
    zero = tf.zeros([1])
    # At its mean the standard normal density is 1 / sqrt(2 pi); two deviations away e^-2 times that.
    np.testing.assert_allclose(mixtures.log_prob(tf.constant(0.0), zero, zero, zero), -0.9189385, rtol=1e-6)
    found = mixtures.log_prob(tf.constant(5.0), zero, tf.constant([1.0]), tf.math.log([2.0]))
    np.testing.assert_allclose(found, -0.9189385 - np.log(2.0) - 2.0, rtol=1e-6)


def test_densities_are_weighed_by_the_softmax_of_logits():
    rng = np.random.default_rng(0)
    x, logits, mean, log_std = (rng.normal(size=shape) for shape in ((4, 3), *[(4, 3, 5)] * 3))
    density = (special.softmax(logits, -1) * stats.norm.pdf(x[..., None], mean, np.exp(log_std))).sum(-1)
    found = mixtures.log_prob(*(tf.constant(each, tf.float32) for each in (x, logits, mean, log_std)))
    np.testing.assert_allclose(found, np.log(density), rtol=1e-4, atol=1e-5)


def draws(temperature, count=40_000):
    """Of a mixture with weights 0.8 and 0.2, means 0 and 10, deviations 1 and 2."""
    logits, mean = tf.math.log([0.8, 0.2]), tf.constant([0.0, 10.0])
    parts = [tf.repeat(each[None], count, 0) for each in (logits, mean, tf.math.log([1.0, 2.0]))]
    noise = random.gumbel(random.key(0), [count, 2]), random.normal(random.key(1), [count])
    return mixtures.sample(*parts, *noise, temperature).numpy()


def test_a_draw_is_of_one_component():
    x = draws(1.0)
    near = x < 5.0
    assert abs(near.mean() - 0.8) < 0.01
    assert abs(x[near].std() - 1.0) < 0.03 and abs(x[~near].std() - 2.0) < 0.06


def test_temperature_flattens_the_weights_and_widens_the_components():
    # 0.8^(1/4) / (0.8^(1/4) + 0.2^(1/4)) = 0.586; deviations twice as large.
    x = draws(4.0)
    assert abs((x < 5.0).mean() - (0.5858 * stats.norm.cdf(2.5) + 0.4142 * stats.norm.cdf(-1.25))) < 0.01
    x = draws(0.01)  # 0.8^100: the heavier one alone
    assert abs(x).max() < 0.6 and abs(x.std() - 0.1) < 0.005


def test_the_kl_from_a_standard_normal_is_the_closed_form():
    found = mixtures.standard_kl(tf.constant([0.0, 3.0, 0.0]), tf.math.log([1.0, 1.0, 2.0]))
    np.testing.assert_allclose(found, [0.0, 4.5, 1.5 - np.log(2.0)], atol=1e-6)  # (4 - 1) / 2 - ln 2
