"""Intrinsic rewards: the prediction errors of ICM and RND, as functions of their networks' outputs."""

from __future__ import annotations

import tensorflow as tf

from rl.types import Tensor

WHITE_LIMIT = 5.0  # largest absolute value of a whitened number (Burda et al. 2018, section 2.4)


def whiten(x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Returns x [N, F] less its running mean [F], divided by its running deviation, clipped to [-5, 5]."""
    return tf.clip_by_value((x - mean) * tf.math.rsqrt(variance + 1e-8), -WHITE_LIMIT, WHITE_LIMIT)


def distillation_error(predicted: Tensor, target: Tensor) -> Tensor:
    """Returns the squared error of features [N, K], mean over them: [N] (Burda et al. 2018, section 2.2)."""
    return tf.reduce_mean(tf.square(predicted - target), -1)


def forward_error(predicted: Tensor, features: Tensor) -> Tensor:
    """Returns half the squared error of features [N, K], summed: [N] (Pathak et al. 2017, equation 5)."""
    return 0.5 * tf.reduce_sum(tf.square(predicted - features), -1)


def icm_loss(log_prob: Tensor, error: Tensor, beta: float) -> Tensor:
    """Returns the losses of the inverse and the forward model together (Pathak et al. 2017, equation 7).

    log_prob: of the actions taken, by the inverse model, [N].
    error: of the forward model, [N].
    beta: the forward model's share.
    """
    return beta * error - (1.0 - beta) * log_prob
