"""Distributions of returns: categorical on fixed atoms, or quantiles. Pure functions over a batch `[N]`."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops.value import huber
from rl.types import Tensor


def support(value_min: float, value_max: float, atoms: int) -> np.ndarray:
    """Returns the atoms z_i of a categorical distribution, evenly spaced over [value_min, value_max], float32
    [K] (Bellemare et al. 2017, section 4).

    Args:
        atoms: K, at least 2.
    """
    return np.linspace(value_min, value_max, atoms, dtype=np.float32)


def select(values: Tensor, action: Tensor) -> Tensor:
    """Selects values[i, action[i]], the distribution [N, K] of each action taken: values [N, A, K], action
    [N] int."""
    return tf.reduce_sum(values * tf.one_hot(action, values.shape[1], dtype=values.dtype)[:, :, None], 1)


def expectation(logits: Tensor, atoms: Tensor) -> Tensor:
    """Returns the means [...] of categorical distributions: logits [..., K], atoms [K]."""
    return tf.reduce_sum(tf.nn.softmax(logits) * atoms, -1)


def categorical_projection(probabilities: Tensor, target_atoms: Tensor, atoms: Tensor) -> Tensor:
    """Moves probability at any atoms to fixed ones (Bellemare et al. 2017, algorithm 1 and equation 7).

    Each target atom, clipped to the range of `atoms`, gives its probability to its two neighbours, more to
    the nearer: P_i = sum_j clip(1 - |clip(Tz_j) - z_i| / dz, 0, 1) p_j.

    Args:
        probabilities: p_j [N, K] of the target atoms.
        target_atoms: Tz_j [N, K], in any order.
        atoms: z_i [K'], evenly spaced and ascending.

    Returns:
        Probabilities [N, K'] of `atoms`.
    """
    spacing = (atoms[-1] - atoms[0]) / (atoms.shape[0] - 1)
    clipped = tf.clip_by_value(target_atoms, atoms[0], atoms[-1])
    # Every pair instead of the algorithm's scatter: XLA fuses it into one loop and keeps no [N, K, K'].
    distance = tf.abs(clipped[:, :, None] - atoms) / spacing  # [N, K, K']
    return tf.reduce_sum(tf.maximum(1.0 - distance, 0.0) * probabilities[:, :, None], 1)


def bellman_target(probabilities: Tensor, reward: Tensor, discount: Tensor, atoms: Tensor) -> Tensor:
    """Returns the probabilities [N, K] of `atoms` [K] for reward + discount * z, z of `probabilities` [N, K],
    reward and discount [N] (Bellemare et al. 2017, algorithm 1)."""
    return categorical_projection(probabilities, reward[:, None] + discount[:, None] * atoms, atoms)


def cross_entropy(target: Tensor, logits: Tensor) -> Tensor:
    """Returns the cross-entropy -sum_i target_i log softmax(logits)_i over the last axis, [...]; target:
    [..., K] probabilities, logits [..., K]."""
    return -tf.reduce_sum(target * tf.nn.log_softmax(logits), -1)


def kl_divergence(target: Tensor, logits: Tensor) -> Tensor:
    """Returns KL(target, softmax(logits)) in nats, [N]: target [N, K] probabilities, logits [N, K]; 0 log 0
    is 0."""
    return cross_entropy(target, logits) + tf.reduce_sum(tf.math.xlogy(target, target), -1)


def quantile_midpoints(count: int) -> np.ndarray:
    """Returns the fractions of quantiles, (2 i + 1) / (2 count) for i = 0 .. count - 1, float32 [count]
    (Dabney et al. 2018, lemma 2)."""
    return (np.arange(count, dtype=np.float32) + 0.5) / np.float32(count)


def lowest(quantiles: Tensor, count: int) -> Tensor:
    """Pools the quantiles of several distributions, sorts them, and keeps the lowest (Kuznetsov et al. 2020,
    figure 2).

    Args:
        quantiles: [C, N, Q], of C distributions for each of N examples.
        count: K, how many are kept, at most C Q.

    Returns:
        [N, K], ascending.
    """
    pooled = tf.reshape(tf.transpose(quantiles, [1, 0, 2]), [quantiles.shape[1], -1])  # [N, C Q]
    place = tf.range(pooled.shape[1])
    # Ranks by comparing all pairs, in vectors: XLA's sort on processors compares pair after pair.
    this, other = pooled[:, :, None], pooled[:, None, :]
    before = (other < this) | ((other == this) & (place < place[:, None]))
    rank = tf.reduce_sum(tf.cast(before, tf.int32), -1)  # [N, C Q]
    return tf.reduce_sum(tf.where(rank[:, None, :] == place[:count, None], other, 0.0), -1)


def quantile_huber(quantiles: Tensor, fraction: Tensor, target: Tensor, delta: float = 1.0) -> Tensor:
    """Computes the Huber loss of quantile regression (Dabney et al. 2018, equations 9 and 10, algorithm 1):

    sum_i mean_j |fraction_i - 1{u_ij < 0}| huber(u_ij) with u_ij = target_j - quantiles_i.

    Args:
        quantiles: [N, Q], the values at `fraction`.
        fraction: [Q] or [N, Q] in (0, 1).
        target: [N, Q'] samples or quantiles of the target.
        delta: where the loss turns from quadratic to linear (kappa in the paper).

    Returns:
        [N].
    """
    error = target[:, :, None] - quantiles[:, None, :]  # [N, Q', Q]
    fraction = fraction[:, None, :] if len(fraction.shape) == 2 else fraction
    weight = tf.abs(fraction - tf.cast(error < 0.0, tf.float32))
    return tf.reduce_sum(weight * huber(error, delta), [1, 2]) / target.shape[1]
