"""Temporal-difference targets and losses for action values. Pure functions over a batch `[N]`."""

from __future__ import annotations

import tensorflow as tf

from rl.types import Tensor


def select(values: Tensor, action: Tensor) -> Tensor:
    """values[i, action[i]]: values [N, A], action [N] int. Returns [N].

    A product with a one-hot row: cheaper than a gather and its scatter gradient for few actions.
    """
    return tf.reduce_sum(values * tf.one_hot(action, values.shape[-1], dtype=values.dtype), -1)


def q_learning_target(reward: Tensor, discount: Tensor, next_q_values: Tensor) -> Tensor:
    """r + discount * max_a Q(s', a) (Watkins 1989). reward, discount [N]; next_q_values [N, A]."""
    return reward + discount * tf.reduce_max(next_q_values, -1)


def double_q_learning_target(
    reward: Tensor, discount: Tensor, next_q_values: Tensor, selector_q_values: Tensor
) -> Tensor:
    """r + discount * Q(s', argmax_a selector(s', a)) (van Hasselt et al. 2016, equation 4).

    `selector_q_values` [N, A] choose the action, `next_q_values` [N, A] say what it is worth.
    """
    chosen = tf.argmax(selector_q_values, -1, output_type=tf.int32)
    return reward + discount * select(next_q_values, chosen)


def huber(error: Tensor, delta: float = 1.0) -> Tensor:
    """Quadratic within `delta`, linear beyond (Huber 1964). Elementwise."""
    size = tf.abs(error)
    inside = tf.minimum(size, delta)
    return 0.5 * tf.square(inside) + delta * (size - inside)
