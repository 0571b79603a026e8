"""Quantiles of recent values: a buffer of the last K numbers of a series."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.types import Tensor


class Last(NamedTuple):
    """The last K numbers of a series, in any order."""

    values: Tensor  # [K] float32; places that are not filled yet are meaningless
    count: Tensor  # int32 scalar: how many numbers were ever added


def added(last: Last, values: Tensor, taken: Tensor) -> Last:
    """Adds those of `values` [N] where `taken`, bool [N], is true, in that order; returns the new last K."""
    size = last.values.shape[0]
    number = last.count + tf.cumsum(tf.cast(taken, tf.int32), exclusive=True)  # [N] of each that is taken
    count = last.count + tf.reduce_sum(tf.cast(taken, tf.int32))
    stays = taken & (number >= count - size)  # of more than K the last ones
    place = tf.where(stays, number % size, size)  # the last place is for what is not taken
    kept = tf.tensor_scatter_nd_update(tf.pad(last.values, [[0, 1]]), place[:, None], values)
    return Last(kept[:size], count)


def quantile(last: Last, share: float) -> Tensor:
    """Returns the quantile `share` of the last numbers: of n sorted numbers the one at index
    floor(share * (n - 1)) (NumPy's method "lower"); the least float32 if there are none."""
    size = last.values.shape[0]
    there = tf.minimum(last.count, size)
    ordered = tf.sort(tf.where(tf.range(size) < there, last.values, tf.float32.max))
    place = tf.cast(tf.floor(share * tf.cast(tf.maximum(there - 1, 0), tf.float32)), tf.int32)
    return tf.where(there > 0, tf.gather(ordered, place), tf.float32.min)
