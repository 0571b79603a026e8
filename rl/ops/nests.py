"""Nests of tensors with leading axes."""

from __future__ import annotations

import tensorflow as tf

from rl.types import Nest


def flatten_time(nest: Nest) -> Nest:
    """Reshapes every tensor of a nest from [T, B, ...] to [T * B, ...]."""
    return tf.nest.map_structure(lambda x: tf.reshape(x, [x.shape[0] * x.shape[1], *x.shape[2:]]), nest)


def swap_time(nest: Nest) -> Nest:
    """Transposes every tensor of a nest from [T, B, ...] to [B, T, ...], or back."""
    return tf.nest.map_structure(lambda x: tf.transpose(x, [1, 0, *range(2, x.shape.rank)]), nest)


def without_last(nest: Nest) -> Nest:
    """Drops the last entry of every tensor of a nest, [T + 1, ...] to [T, ...]: of a trajectory's
    observations, those that actions follow stay."""
    return tf.nest.map_structure(lambda x: x[:-1], nest)
