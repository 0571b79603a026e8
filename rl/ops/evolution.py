"""Evolution strategies: scores of a population, their shaping, the gradient estimated from them.

A population of P = 2 D members tries D random directions in mirrored pairs: member i < D has the parameters
theta + std * noise[i], member D + i has theta - std * noise[i].
"""

from __future__ import annotations

import tensorflow as tf

from rl.types import Tensor


def episode_scores(reward: Tensor, episode_end: Tensor, mask: Tensor) -> Tensor:
    """Returns the mean return of the episodes that each environment finished in a rollout; float32 [B].

    Where none was finished, it is the return so far. reward, episode_end (bool), mask (0 on autoreset steps),
    all [T, B]; every environment begins an episode at t = 0.
    """
    length = reward.shape[0]
    step = tf.range(length)[:, None]  # [T, 1]
    last = tf.reduce_max(tf.where(episode_end, step, -1), 0)  # [B] -1: none finished
    finished = tf.reduce_sum(tf.cast(episode_end, tf.float32), 0)  # [B]
    counts = tf.logical_or(step <= last, finished == 0.0)  # [T, B]: not the unfinished rest
    total = tf.reduce_sum(tf.where(counts, reward * mask, 0.0), 0)  # [B]
    return total / tf.maximum(finished, 1.0)


def centered_ranks(score: Tensor) -> Tensor:
    """Returns the ranks of score [P], scaled to [-0.5, 0.5], float32 [P] (Salimans et al. 2017, section 2.1,
    "fitness shaping").

    Equal scores share the mean of their ranks, so that a population of equal scores gives a zero gradient.
    """
    below = tf.cast(score[:, None] > score[None, :], tf.float32)  # [P, P]
    above = tf.cast(score[:, None] < score[None, :], tf.float32)
    return 0.5 * tf.reduce_sum(below - above, 1) / float(max(score.shape[0] - 1, 1))


def antithetic_gradient(value: Tensor, noise: Tensor, std: float) -> Tensor:
    """Returns an unbiased estimate of the gradient of E[value(theta + std * noise)] by theta; float32 [n].

    1 / (2 D std) * sum_i (value[i] - value[D + i]) * noise[i] (Salimans et al. 2017, section 2.1, with
    mirrored sampling). value [2 D], noise [D, n].
    """
    plus, minus = tf.split(value, 2)  # [D] each
    return tf.linalg.matvec(noise, plus - minus, transpose_a=True) / (2.0 * noise.shape[0] * std)


def top_directions(score: Tensor, count: int) -> Tensor:
    """Returns the `count` directions whose better member scored best, int32 [count], the best first (Mania et
    al. 2018, section 3.3).

    score: [2 D] of the members.
    """
    plus, minus = tf.split(score, 2)
    return tf.math.top_k(tf.maximum(plus, minus), count).indices


def flatten(tensors: list[Tensor]) -> Tensor:
    """Joins all elements of the tensors in one vector [n]."""
    return tf.concat([tf.reshape(tf.convert_to_tensor(each), [-1]) for each in tensors], 0)


def unflatten(vector: Tensor, shapes: list[tuple[int, ...]]) -> list[Tensor]:
    """Cuts vectors [..., n] into tensors of `shapes`, each [..., *shape]: the inverse of `flatten`."""
    sizes = [int(tf.TensorShape(shape).num_elements()) for shape in shapes]
    lead = list(vector.shape[:-1])
    parts = tf.split(vector, sizes, -1)
    return [tf.reshape(part, [*lead, *shape]) for part, shape in zip(parts, shapes, strict=True)]
