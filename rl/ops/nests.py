"""Nests of tensors with leading axes."""

from __future__ import annotations

import tensorflow as tf

from rl.types import Nest


def flatten_time(nest: Nest) -> Nest:
    """[T, B, ...] to [T * B, ...] in every tensor."""
    return tf.nest.map_structure(lambda x: tf.reshape(x, [x.shape[0] * x.shape[1], *x.shape[2:]]), nest)


def swap_time(nest: Nest) -> Nest:
    """[T, B, ...] to [B, T, ...] in every tensor, and back."""
    return tf.nest.map_structure(lambda x: tf.transpose(x, [1, 0, *range(2, x.shape.rank)]), nest)


def without_last(nest: Nest) -> Nest:
    """[T + 1, ...] to [T, ...] in every tensor: of a trajectory's observations, those that actions follow."""
    return tf.nest.map_structure(lambda x: x[:-1], nest)
