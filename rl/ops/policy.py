"""Policy-gradient losses. Pure functions over a batch `[N]`."""

from __future__ import annotations

import math

import tensorflow as tf

from rl.parallel import replicas
from rl.types import Tensor

LARGEST_RATIO = 1e6  # cap of importance ratios in metrics


def clipped_surrogate(importance_ratio: Tensor, advantage: Tensor, clip_range: float) -> Tensor:
    """Returns PPO's loss -min(r A, clip(r, 1-c, 1+c) A), to be minimised (Schulman et al. 2017, equation 7),
    with r the importance ratio, A the advantage and c `clip_range`. Elementwise."""
    clipped = tf.clip_by_value(importance_ratio, 1.0 - clip_range, 1.0 + clip_range)
    return -tf.minimum(importance_ratio * advantage, clipped * advantage)


def clipped_value_loss(value: Tensor, old_value: Tensor, target: Tensor, clip_range: float | None) -> Tensor:
    """Returns half the squared error of `value`, or, with a `clip_range`, its pessimistic form, in which the
    step from `old_value` is clipped. Elementwise.

    The clipped form is the reference implementation's, not the paper's (Engstrom et
    al. 2020, section 3).
    """
    loss = tf.square(value - target)
    if clip_range is not None:
        near = old_value + tf.clip_by_value(value - old_value, -clip_range, clip_range)
        loss = tf.maximum(loss, tf.square(near - target))
    return 0.5 * loss


def bounded_ratio(log_importance_ratio: Tensor) -> Tensor:
    """Returns exp of the log ratio, at most `LARGEST_RATIO`, for metrics: no single step can make one
    infinite."""
    return tf.exp(tf.minimum(log_importance_ratio, math.log(LARGEST_RATIO)))


def approximate_kl(log_importance_ratio: Tensor) -> Tensor:
    """Estimates KL(old, new) in nats from the old policy's samples, by (r - 1) - log r. Elementwise.

    It is unbiased and never negative (Schulman 2020, "Approximating KL divergence").
    """
    return tf.exp(log_importance_ratio) - 1.0 - log_importance_ratio


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Returns the mean of x where mask is 1, a scalar; 0 where the mask is empty."""
    return tf.reduce_sum(x * mask) / tf.maximum(tf.reduce_sum(mask), 1.0)


def mean_of_all(mean: Tensor, mask: Tensor) -> Tensor:
    """Returns `masked_mean` over all learners, of each one's own `mean` and mask, a scalar; 0 where all masks
    are empty."""
    counted = tf.reduce_sum(mask)
    return replicas.total(mean * counted) / tf.maximum(replicas.total(counted), 1.0)


def standardize(x: Tensor, mask: Tensor, epsilon: float = 1e-8) -> Tensor:
    """Returns (x - mean) / std, of the shape of x, with the statistics of all learners' unmasked entries."""
    counted = tf.maximum(replicas.total(tf.reduce_sum(mask)), 1.0)
    mean = replicas.total(tf.reduce_sum(x * mask)) / counted
    deviation = tf.sqrt(replicas.total(tf.reduce_sum(tf.square(x - mean) * mask)) / counted)
    return (x - mean) / (deviation + epsilon)
