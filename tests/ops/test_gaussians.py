"""Products of normal distributions: by the paper's formula worked by hand, and what order does not change."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from scipy import stats

from rl.ops import gaussians

MEAN = tf.constant([[1.0, 0.0], [4.0, 6.0], [-2.0, 9.0]])
VARIANCE = tf.constant([[1.0, 2.0], [0.5, 4.0], [0.25, 1.0]])
ALL = tf.ones([3])


def test_the_product_of_three_by_hand() -> None:
    # Precisions 1 + 2 + 4 = 7 and 0.5 + 0.25 + 1 = 1.75; weighted 1 + 8 - 8 = 1 and 0 + 1.5 + 9 = 10.5.
    found = gaussians.sums(MEAN, VARIANCE, ALL, axis=0)
    np.testing.assert_allclose(found.precision, [7.0, 1.75])
    np.testing.assert_allclose(found.weighted, [1.0, 10.5])
    mean, log_std = gaussians.product(found)
    np.testing.assert_allclose(mean, [0.142857143, 6.0], rtol=1e-6)
    np.testing.assert_allclose(np.exp(2.0 * log_std), [0.142857143, 0.571428571], rtol=1e-6)


def test_the_product_is_where_the_densities_product_is() -> None:
    mean, log_std = gaussians.product(gaussians.sums(MEAN, VARIANCE, ALL, axis=0))
    x = np.linspace(-3.0, 12.0, 7)
    for i in range(2):
        each = stats.norm.logpdf(x[:, None], MEAN[:, i], np.sqrt(VARIANCE[:, i])).sum(1)
        rest = each - stats.norm.logpdf(x, mean[i], np.exp(log_std[i]))
        np.testing.assert_allclose(rest, rest[0], rtol=1e-5)  # proportional to it


def test_factors_count_where_the_mask_is_1_and_none_is_the_standard_normal() -> None:
    mask = tf.constant([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    means, variances = (tf.tile(x[None], [2, 1, 1]) for x in (MEAN, VARIANCE))
    mean, log_std = gaussians.product(gaussians.sums(means, variances, mask, axis=1))
    np.testing.assert_allclose(mean, [[4.0, 6.0], [0.0, 0.0]])
    np.testing.assert_allclose(np.exp(2.0 * log_std), [[0.5, 4.0], [1.0, 1.0]], rtol=1e-6)


def test_neither_order_nor_when_it_is_added_changes_the_product() -> None:
    whole = gaussians.product(gaussians.sums(MEAN, VARIANCE, ALL, axis=0))
    order = [2, 0, 1]
    turned = gaussians.product(
        gaussians.sums(tf.gather(MEAN, order), tf.gather(VARIANCE, order), ALL, axis=0)
    )
    first = gaussians.sums(MEAN[:1], VARIANCE[:1], ALL[:1], axis=0)
    rest = gaussians.sums(MEAN[1:], VARIANCE[1:], ALL[1:], axis=0)
    added = gaussians.product(gaussians.Sums(*(x + y for x, y in zip(first, rest, strict=True))))
    for found in (turned, added):
        np.testing.assert_allclose(found[0], whole[0], rtol=1e-6)
        np.testing.assert_allclose(found[1], whole[1], rtol=1e-6)
