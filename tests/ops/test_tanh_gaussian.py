"""The squashed Gaussian of SAC against scipy, quadrature and PyTorch; the distribution of one action."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import integrate, stats

from rl.ops import random
from rl.ops.distributions import Deterministic, TanhGaussian

UNLIKELY = 1e-4
MANY = 20_000


def test_log_prob_is_the_normal_density_over_the_slope_of_the_squashing():
    # At u = 1: log N(1) = -1.418939, log(1 - tanh(1)^2) = log 0.419974 = -0.867562. At u = 0 the slope is 1.
    distribution = TanhGaussian(tf.zeros([2, 1]), tf.zeros([2, 1]))
    action = tf.constant([[0.76159416], [0.0]])
    np.testing.assert_allclose(distribution.log_prob(action), [-0.551377, -0.918939], rtol=1e-5)


def test_log_prob_counts_the_range_of_the_bounds():
    # Four times as wide as [-1, 1], and 1 up: a quarter of the density, at 1 + 4 * action.
    narrow = TanhGaussian(tf.zeros([1, 1]), tf.zeros([1, 1]))
    wide = TanhGaussian(tf.zeros([1, 1]), tf.zeros([1, 1]), [-3.0], [5.0])
    expected = narrow.log_prob(tf.constant([[0.5]])).numpy() - np.log(4.0)
    np.testing.assert_allclose(wide.log_prob(tf.constant([[3.0]])), expected, rtol=1e-5)


def test_log_prob_sums_over_the_numbers_of_an_action():
    generator = np.random.default_rng(0)
    mean, log_std = generator.normal(size=(2, 5, 3)).astype(np.float32)
    low, high = np.array([-1.0, -2.0, 0.0], np.float32), np.array([1.0, 4.0, 0.5], np.float32)
    unit = generator.uniform(-0.95, 0.95, (5, 3))
    u = np.arctanh(unit)
    each = stats.norm.logpdf(u, mean, np.exp(log_std)) - np.log(1.0 - unit**2) - np.log((high - low) / 2.0)
    action = low + (high - low) * (unit + 1.0) / 2.0
    found = TanhGaussian(tf.constant(mean), tf.constant(log_std), low, high).log_prob(
        tf.constant(action, tf.float32)
    )
    np.testing.assert_allclose(found, each.sum(-1), rtol=1e-4)


def test_its_density_integrates_to_one_between_the_bounds():
    def density(a):
        distribution = TanhGaussian(tf.constant([[0.3]]), tf.constant([[-0.7]]), [-2.0], [1.0])
        return np.exp(distribution.log_prob(tf.constant([[a]], tf.float32)).numpy()[0])

    grid = np.linspace(-1.999, 0.999, 4001)
    distribution = TanhGaussian(tf.fill([4001, 1], 0.3), tf.fill([4001, 1], -0.7), [-2.0], [1.0])
    densities = np.exp(distribution.log_prob(tf.constant(grid[:, None], tf.float32)))
    np.testing.assert_allclose(integrate.simpson(densities, x=grid), 1.0, atol=1e-3)
    np.testing.assert_allclose(density(grid[100]), densities[100], rtol=1e-5)


def test_it_equals_pytorchs_transformed_normal():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: only scipy was compared")
    generator = np.random.default_rng(1)
    mean, log_std = generator.normal(size=(2, 50, 3)).astype(np.float32)
    unit = generator.uniform(-0.99, 0.99, (50, 3)).astype(np.float32)
    base = torch.distributions.Normal(torch.tensor(mean), torch.tensor(np.exp(log_std)))
    squash = torch.distributions.transforms.TanhTransform()
    expected = torch.distributions.TransformedDistribution(base, squash).log_prob(torch.tensor(unit)).sum(-1)
    found = TanhGaussian(tf.constant(mean), tf.constant(log_std)).log_prob(tf.constant(unit))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_samples_have_their_exact_log_prob_far_out_and_finite_gradients(jit_compile):
    mean = tf.constant([[-60.0], [-9.0], [0.1], [9.0], [60.0]])

    @tf.function(jit_compile=jit_compile, autograph=False)
    def sample(log_std):
        with tf.GradientTape() as tape:
            tape.watch(log_std)
            action, log_prob = TanhGaussian(mean, log_std).unit_sample(random.key(3))
        return action, log_prob, tape.gradient(log_prob, log_std)

    log_std = tf.fill([5, 1], -1.0)
    action, log_prob, gradient = sample(log_std)
    noise = random.normal(random.key(3), [5, 1]).numpy().astype(np.float64)
    u = mean.numpy() + np.exp(-1.0) * noise
    slope = -2.0 * np.log(np.cosh(u))  # log(1 - tanh(u)^2) = -2 log cosh(u), in 64 bits
    expected = (stats.norm.logpdf(noise) + 1.0 - slope)[:, 0]
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4)
    np.testing.assert_allclose(action, np.tanh(u), atol=1e-6)
    assert np.isfinite(gradient).all()


def test_log_prob_of_an_action_on_its_bound_is_finite():
    distribution = TanhGaussian(tf.constant([[0.0], [30.0]]), tf.zeros([2, 1]), [-2.0], [2.0])
    assert np.isfinite(distribution.log_prob(tf.constant([[2.0], [-2.0]]))).all()


def test_samples_lie_within_the_bounds_and_follow_the_density():
    mean, std = 0.4, 0.8
    log_std = tf.fill([MANY, 1], float(np.log(std)))
    distribution = TanhGaussian(tf.fill([MANY, 1], mean), log_std, [-3.0], [1.0])
    sample = distribution.sample(random.key(4)).numpy()[:, 0]
    assert sample.min() >= -3.0 and sample.max() <= 1.0
    assert stats.kstest(np.arctanh((sample + 1.0) / 2.0), stats.norm(mean, std).cdf).pvalue > UNLIKELY


def test_the_mode_is_the_squashed_mean():
    distribution = TanhGaussian(tf.constant([[0.5, -30.0]]), tf.zeros([1, 2]), [-2.0, 0.0], [2.0, 3.0])
    np.testing.assert_allclose(distribution.mode(), [[2.0 * np.tanh(0.5), 0.0]], rtol=1e-6)


def test_an_entropy_that_has_no_formula_is_refused():
    with pytest.raises(NotImplementedError, match="no closed form"):
        TanhGaussian(tf.zeros([1, 1]), tf.zeros([1, 1])).entropy()


def test_a_deterministic_policy_has_one_action():
    action = tf.constant([[0.5, -1.0], [2.0, 0.0]])
    distribution = Deterministic(action)
    np.testing.assert_array_equal(distribution.mode(), action)
    np.testing.assert_array_equal(distribution.sample(random.key(0)), action)
    np.testing.assert_array_equal(distribution.log_prob(action), [0.0, 0.0])
    np.testing.assert_array_equal(distribution.entropy(), [0.0, 0.0])
