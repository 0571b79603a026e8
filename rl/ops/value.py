"""Action values: of the actions taken, and losses of their errors. Pure functions over a batch `[N]`."""

from __future__ import annotations

import tensorflow as tf

from rl.types import Tensor


def select(values: Tensor, action: Tensor) -> Tensor:
    """Selects values[i, action[i]], the value [N] of each action taken: values [N, A], action [N] int.

    It is a product with a one-hot row: cheaper than a gather and its scatter gradient for few actions.
    """
    return tf.reduce_sum(values * tf.one_hot(action, values.shape[-1], dtype=values.dtype), -1)


def huber(error: Tensor, delta: float = 1.0) -> Tensor:
    """Returns the Huber loss of an error, quadratic within `delta` and linear beyond (Huber 1964).
    Elementwise."""
    size = tf.abs(error)
    inside = tf.minimum(size, delta)
    return 0.5 * tf.square(inside) + delta * (size - inside)
