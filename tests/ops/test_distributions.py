"""Action distributions against scipy: log-probabilities, entropies, what is sampled."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special, stats

from rl.ops import distributions, random

UNLIKELY = 1e-4
LOGITS = np.array([[0.5, -1.0, 2.0, 0.0], [3.0, 3.0, -8.0, 1.0]], np.float32)
MANY = 20_000


def repeated(row):
    return tf.constant(np.repeat(np.asarray(row, np.float32)[None], MANY, 0))


def test_categorical_log_prob_and_entropy():
    distribution = distributions.Categorical(tf.constant(LOGITS))
    log_probs = special.log_softmax(LOGITS, -1)
    np.testing.assert_allclose(
        distribution.log_prob(tf.constant([2, 0])), log_probs[[0, 1], [2, 0]], rtol=1e-5
    )
    np.testing.assert_allclose(distribution.entropy(), stats.entropy(np.exp(log_probs), axis=-1), rtol=1e-5)
    np.testing.assert_array_equal(distribution.mode(), [2, 0])


def test_categorical_samples_as_often_as_it_says():
    sample = distributions.Categorical(repeated(LOGITS[0])).sample(random.key(0)).numpy()
    assert sample.dtype == np.int32
    expected = special.softmax(LOGITS[0].astype(np.float64)) * MANY
    assert stats.chisquare(np.bincount(sample, minlength=4), expected).pvalue > UNLIKELY


def test_categorical_never_samples_what_is_impossible():
    sample = distributions.Categorical(repeated([0.0, -1e9, 0.0])).sample(random.key(1)).numpy()
    assert set(sample) == {0, 2}


def test_multi_categorical_is_the_product_of_its_parts():
    distribution = distributions.MultiCategorical(tf.constant(LOGITS), [1, 3])
    parts = special.log_softmax(LOGITS[:, :1], -1), special.log_softmax(LOGITS[:, 1:], -1)
    action = tf.constant([[0, 1], [0, 2]])
    expected = parts[0][:, 0] + parts[1][[0, 1], [1, 2]]
    np.testing.assert_allclose(distribution.log_prob(action), expected, rtol=1e-5)
    np.testing.assert_allclose(distribution.entropy(), stats.entropy(np.exp(parts[1]), axis=-1), rtol=1e-5)
    np.testing.assert_array_equal(distribution.mode(), [[0, 1], [0, 0]])


def test_multi_categorical_samples_its_parts_independently():
    row = [1.0, 0.0, 0.5, 0.5, -0.5]
    sample = distributions.MultiCategorical(repeated(row), [2, 3]).sample(random.key(2)).numpy()
    joint = np.outer(special.softmax(row[:2]), special.softmax(row[2:])).reshape(-1)
    counts = np.bincount(sample[:, 0] * 3 + sample[:, 1], minlength=6)
    assert stats.chisquare(counts, joint * MANY).pvalue > UNLIKELY


def test_bernoulli_log_prob_entropy_and_mode():
    logits = np.array([[0.3, -2.0], [40.0, -40.0]], np.float32)
    distribution = distributions.Bernoulli(tf.constant(logits))
    p = special.expit(logits.astype(np.float64))
    action = np.array([[1, 1], [1, 0]])
    expected = stats.bernoulli.logpmf(action, p).sum(-1)
    np.testing.assert_allclose(distribution.log_prob(tf.constant(action)), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(distribution.entropy()[0], stats.bernoulli.entropy(p[0]).sum(), rtol=1e-5)
    assert np.isfinite(distribution.entropy()).all()
    np.testing.assert_array_equal(distribution.mode(), [[1, 0], [1, 0]])


def test_bernoulli_samples_as_often_as_it_says():
    sample = distributions.Bernoulli(repeated([0.3, -2.0])).sample(random.key(3)).numpy()
    for column, logit in zip(sample.T, (0.3, -2.0), strict=True):
        assert stats.binomtest(int(column.sum()), MANY, special.expit(logit)).pvalue > UNLIKELY


def test_gaussian_log_prob_and_entropy():
    mean = np.array([[0.0, 1.0], [-2.0, 0.5]], np.float32)
    log_std = np.array([-1.0, 0.7], np.float32)
    distribution = distributions.DiagonalGaussian(tf.constant(mean), tf.constant(log_std))
    action = np.array([[0.1, -1.0], [-2.0, 3.0]], np.float32)
    expected = stats.norm.logpdf(action, mean, np.exp(log_std)).sum(-1)
    np.testing.assert_allclose(distribution.log_prob(tf.constant(action)), expected, rtol=1e-5)
    entropy = stats.norm.entropy(mean, np.exp(log_std)).sum(-1)
    np.testing.assert_allclose(distribution.entropy(), entropy, rtol=1e-5)
    np.testing.assert_array_equal(distribution.mode(), mean)


def test_gaussian_samples_have_its_mean_and_deviation():
    distribution = distributions.DiagonalGaussian(repeated([1.0, -3.0]), tf.math.log([0.5, 2.0]))
    sample = distribution.sample(random.key(4)).numpy()
    for column, mean, std in zip(sample.T, (1.0, -3.0), (0.5, 2.0), strict=True):
        assert stats.kstest(column, stats.norm(mean, std).cdf).pvalue > UNLIKELY
    assert abs(np.corrcoef(sample.T)[0, 1]) < 4.0 / np.sqrt(MANY)


SPACES = [
    (spaces.Discrete(3), 3, ()),
    (spaces.MultiDiscrete([2, 3]), 5, (2,)),
    (spaces.MultiDiscrete([[2, 3], [4, 2]]), 11, (2, 2)),
    (spaces.MultiBinary(4), 4, (4,)),
    (spaces.MultiBinary((2, 3)), 6, (2, 3)),
    (spaces.Box(-1.0, 1.0, (2,)), 2, (2,)),
    (spaces.Box(-1.0, 1.0, (2, 3)), 6, (2, 3)),
    (spaces.Box(-1.0, 1.0, ()), 1, ()),
]


@pytest.mark.parametrize(("space", "count", "shape"), SPACES, ids=[str(each[0]) for each in SPACES])
def test_every_action_space_has_a_distribution_of_its_shape(space, count, shape):
    assert distributions.parameter_count(space) == count
    parameters = random.normal(random.key(0), [5, count])
    distribution = distributions.of_space(space, parameters, tf.zeros([count]))
    sample, mode = distribution.sample(random.key(1)), distribution.mode()
    assert sample.shape == mode.shape == (5, *shape)
    if not isinstance(space, spaces.Box):
        assert all(space.contains(each.astype(space.dtype)) for each in sample.numpy())
    log_prob = distribution.log_prob(sample)
    assert log_prob.shape == distribution.entropy().shape == (5,)
    assert (distribution.log_prob(mode).numpy() >= log_prob.numpy() - 1e-6).all()


HALF, QUARTER = [0.0, 0.0], [0.0, np.log(3.0)]  # logits of (1/2, 1/2) and of (1/4, 3/4)
LN_2 = np.log(2.0)
COIN = 0.5 * np.log(4.0 / 3.0)  # KL of the first from the second: 1/2 ln 2 + 1/2 ln 2/3
BACK = 0.75 * np.log(1.5) - 0.25 * np.log(2.0)  # and the other way round


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (distributions.Categorical(tf.constant([HALF, QUARTER])),
         distributions.Categorical(tf.constant([QUARTER, HALF])), [COIN, BACK]),
        (distributions.MultiCategorical(tf.constant([HALF + HALF, HALF + QUARTER]), [2, 2]),
         distributions.MultiCategorical(tf.constant([HALF + QUARTER, QUARTER + HALF]), [2, 2]),
         [COIN, COIN + BACK]),
        (distributions.Bernoulli(tf.constant([[0.0, 0.0], [np.log(3.0), 2.0]], tf.float32)),
         distributions.Bernoulli(tf.constant([[np.log(3.0), -np.log(3.0)], [0.0, 2.0]], tf.float32)),
         [2 * COIN, BACK]),
        # ln(s2 / s1) + (s1^2 + (m1 - m2)^2) / (2 s2^2) - 1/2
        (distributions.DiagonalGaussian(*(tf.constant(x, tf.float32) for x in ([[0], [1]], [[0], [LN_2]]))),
         distributions.DiagonalGaussian(*(tf.constant(x, tf.float32) for x in ([[1], [0]], [[LN_2], [0]]))),
         [np.log(2.0) - 0.25, 2.0 - np.log(2.0)]),
    ],
    ids=["categorical", "multi_categorical", "bernoulli", "gaussian"],
)  # fmt: skip
def test_kl_is_what_it_is_by_hand(one, other, expected):
    np.testing.assert_allclose(one.kl(other), expected, rtol=1e-5)
    np.testing.assert_allclose(one.kl(one), [0.0, 0.0], atol=1e-7)


def test_kl_of_shaped_and_squashed_actions_is_that_of_what_they_are_made_of():
    means = tf.zeros([1, 4]), tf.constant([[1.0, 0.0, 0.0, 2.0]])
    plain = [distributions.DiagonalGaussian(mean, tf.zeros([4])) for mean in means]
    shaped = [distributions.Shaped(each, (2, 2)) for each in plain]
    squashed = [distributions.TanhGaussian(mean, tf.zeros([4])) for mean in means]
    for one, other in (plain, shaped, squashed):
        np.testing.assert_allclose(one.kl(other), [2.5])


def test_kl_of_normals_in_parts_is_by_the_mean_and_by_the_deviation():
    # 0.5 (1 / 2)^2 = 0.125 at the first's deviation 2; ln(4 / 2) + 4 / 32 - 1/2 = 0.31815.
    one = distributions.DiagonalGaussian(tf.constant([[0.0]]), tf.math.log([[2.0]]))
    other = distributions.DiagonalGaussian(tf.constant([[1.0]]), tf.math.log([[4.0]]))
    for pair in ((one, other), (distributions.Shaped(one, (1, 1)), distributions.Shaped(other, (1, 1)))):
        parts = distributions.kl_parts(*pair)
        assert list(parts) == ["kl_mean", "kl_std"]
        np.testing.assert_allclose([parts["kl_mean"][0], parts["kl_std"][0]], [0.125, 0.31815], atol=1e-5)
    coins = (
        distributions.Categorical(tf.constant([[0.0, 0.0]])),
        distributions.Categorical(tf.constant([[1.0, 0.0]])),
    )
    np.testing.assert_array_equal(distributions.kl_parts(*coins)["kl"], coins[0].kl(coins[1]))


def test_what_a_mask_forbids_adds_nothing_to_kl():
    one, other = (distributions.Categorical(tf.constant([[*x, -1e9]])) for x in (HALF, QUARTER))
    np.testing.assert_allclose(one.kl(other), [COIN], rtol=1e-5)
