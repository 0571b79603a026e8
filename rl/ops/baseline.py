"""A baseline of returns that is linear in features of observations and time, in closed form."""

from __future__ import annotations

import tensorflow as tf

from rl.types import Tensor

RIDGE = 1e-3  # of features of mean square 1


def features(x: Tensor, time: Tensor) -> Tensor:
    """Returns x, x^2, t, t^2, t^3 and 1 of x [..., F] and times [...] in [0, 1], [..., 2 F + 4].

    Duan et al. 2016, "Benchmarking deep reinforcement learning for continuous control", appendix 2; x is
    clipped to [-10, 10] as in the authors' code.
    """
    x, t = tf.clip_by_value(x, -10.0, 10.0), time[..., None]
    return tf.concat([x, tf.square(x), t, tf.square(t), t**3, tf.ones_like(t)], -1)


def fitted(x: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Returns the least squares fit of `target` [P, M] that is linear in x [P, M, F], where mask [P, M] is 1.

    Each of the P tasks is fitted by itself, with a ridge for linearly dependent features; 0 where the mask is
    0.
    """
    x = x * mask[..., None]
    count = tf.maximum(tf.reduce_sum(mask, 1), 1.0)  # [P]
    scale = tf.sqrt(tf.reduce_sum(tf.square(x), 1, keepdims=True) / count[:, None, None])
    x = x / tf.maximum(scale, 1e-6)  # mean squares of 1
    gram = tf.matmul(x, x, transpose_a=True) / count[:, None, None]  # [P, F, F]
    moment = tf.linalg.matvec(x, target * mask, transpose_a=True) / count[:, None]  # [P, F]
    root = tf.linalg.cholesky(gram + RIDGE * tf.eye(x.shape[-1]))
    half = tf.linalg.triangular_solve(root, moment[..., None])
    weights = tf.linalg.triangular_solve(root, half, lower=True, adjoint=True)  # [P, F, 1]
    return tf.matmul(x, weights)[..., 0]
