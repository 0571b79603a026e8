"""Products of normal distributions, kept as sums: beliefs to which evidence is added in any order.

The product of N(mean_n, variance_n) over n is, but for a factor, N(mean, variance) with

    1 / variance = sum_n 1 / variance_n,    mean / variance = sum_n mean_n / variance_n

(Rakelly et al. 2019, https://arxiv.org/abs/1903.08254, section 4.1; Bromiley 2003, "Products and convolutions
of Gaussian probability density functions"). These two sums represent all factors.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.types import Tensor


class Sums(NamedTuple):
    """The sums over the factors so far, [..., Z] each; zeros without factors."""

    precision: Tensor  # of 1 / variance
    weighted: Tensor  # of mean / variance


def sums(mean: Tensor, variance: Tensor, mask: Tensor, axis: int) -> Sums:
    """Returns the sums over factors with mean and variance [..., Z] along an axis, where mask [...] is 1."""
    precision = mask[..., None] / variance
    return Sums(tf.reduce_sum(precision, axis), tf.reduce_sum(mean * precision, axis))


def product(factors: Sums) -> tuple[Tensor, Tensor]:
    """Returns (mean, log of the standard deviation) of the product, [..., Z] each; the standard normal where
    there is no factor."""
    known = factors.precision > 0.0
    precision = tf.where(known, factors.precision, 1.0)
    return factors.weighted / precision, -0.5 * tf.math.log(precision)
