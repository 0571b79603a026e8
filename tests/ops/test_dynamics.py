"""Parts of learned dynamics, by hand, by MurmurHash3's published values and by scipy's distributions."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from scipy import stats

from rl.ops import dynamics

PLACES = tf.range(20_000)


def test_soft_bounds_by_hand():
    # 1 - log(1 + e) = -0.3132617, then -1 + log(1 + e^0.6867383); far away the bounds, with a gradient near.
    found = dynamics.soft_clip(tf.constant([0.0, -1e4, 1e4]), -1.0, 1.0)
    np.testing.assert_allclose(found, [0.0943430, -1.0, 1.1269280], atol=2e-6)
    found = dynamics.soft_clip(tf.constant([3.0, 40.0]), -10.0, 20.0)
    np.testing.assert_allclose(found, [3.0, 20.0], atol=1e-4)


def test_the_gaussians_loss_is_minus_its_log_density_without_the_constant():
    mean, log_variance, target = np.random.default_rng(0).normal(size=(3, 5, 4)).astype(np.float32)
    density = stats.norm.logpdf(target, mean, np.exp(0.5 * log_variance)) + 0.5 * np.log(2.0 * np.pi)
    found = dynamics.gaussian_loss(*map(tf.constant, (mean, log_variance, target)))
    np.testing.assert_allclose(found, -density.sum(-1), rtol=1e-4)


def test_a_places_chance_is_murmurhash3s():
    # Of an empty key with the seeds 0, 1 and 2^32 - 1, in the test vectors of MurmurHash3_x86_32.
    published = np.array([0x00000000, 0x514E28B7, 0x81F16F39])
    found = dynamics.chance(tf.constant([0, 1, -1]), 0)
    np.testing.assert_array_equal(found, np.float32(published >> 8) / 2**24)


def test_chances_are_uniform_and_differ_from_stream_to_stream():
    streams = [dynamics.chance(PLACES, stream).numpy() for stream in range(4)]
    for found in streams:
        assert stats.kstest(found, "uniform").pvalue > 1e-3
    correlation = np.corrcoef(streams) - np.eye(4)
    assert np.abs(correlation).max() < 4.0 / np.sqrt(len(PLACES))


def test_the_share_that_is_held_out():
    assert abs(dynamics.held_out(PLACES, 0.2).numpy().mean() - 0.2) < 4.0 * np.sqrt(0.16 / len(PLACES))


def test_a_bootstrap_sample_has_each_transition_as_often_as_a_poisson_variable_of_mean_1():
    counts = dynamics.bootstrap(PLACES, 3).numpy()
    assert counts.shape == (3, len(PLACES))
    expected = stats.poisson.pmf(np.arange(5), 1.0)
    expected = np.append(expected, 1.0 - expected.sum()) * len(PLACES)
    for member in counts:
        found = np.bincount(np.minimum(member, 5).astype(int), minlength=6)
        assert stats.chisquare(found, expected).pvalue > 1e-3
    # Wherever it stands in a batch.
    np.testing.assert_array_equal(dynamics.bootstrap(tf.constant([7, 3]), 3), counts[:, [7, 3]])


def test_elites_are_those_with_the_least_errors():
    np.testing.assert_array_equal(dynamics.elites(tf.constant([0.3, 0.1, 0.7, 0.2]), 3), [1, 3, 0])
