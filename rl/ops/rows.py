"""Arrays of rows that a compiled loop writes, one row each pass."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.types import Nest, Tensor

SHARED = (tf.float32, tf.bool)  # flags are 0.0 and 1.0 among numbers


class Rows:
    """Keeps a nest of tensors for each pass of a loop, and gives it back with a leading axis T.

    Numbers and flags of the same shape share an array: XLA writes each array by a kernel of its own, which
    takes longer to launch than to write the few numbers of a step.

    Args:
        specs: a nest of TensorSpecs, of one row.
        length: T, how many rows there will be.
    """

    def __init__(self, specs: Nest, length: int) -> None:
        self._specs, self._length = specs, length
        places: dict[Any, list[int]] = {}
        for i, spec in enumerate(tf.nest.flatten(specs)):
            alone = spec.dtype not in SHARED or spec.shape.rank != 1
            places.setdefault(i if alone else tuple(spec.shape), []).append(i)
        self._places = list(places.values())  # of the leaves that each array has

    def arrays(self) -> list[tf.TensorArray]:
        """Returns the empty arrays, for the loop to carry."""
        leaves, arrays = tf.nest.flatten(self._specs), []
        for places in self._places:
            spec = leaves[places[0]]
            several = len(places) > 1
            dtype, shape = (tf.float32, [len(places), *spec.shape]) if several else (spec.dtype, spec.shape)
            arrays.append(tf.TensorArray(dtype, self._length, element_shape=shape))
        return arrays

    def write(self, arrays: list[tf.TensorArray], t: Tensor, row: Nest) -> list[tf.TensorArray]:
        """Returns the arrays with row number `t` written."""
        leaves = tf.nest.flatten(row)
        return [
            array.write(t, _joined([leaves[i] for i in places]))
            for array, places in zip(arrays, self._places, strict=True)
        ]

    def stack(self, arrays: list[tf.TensorArray]) -> Nest:
        """Returns the nest of all rows, leaves [T, ...]."""
        leaves = tf.nest.flatten(self._specs)
        found: list[Tensor] = [None] * len(leaves)
        for array, places in zip(arrays, self._places, strict=True):
            whole = array.stack()
            parts = [whole] if len(places) == 1 else tf.unstack(whole, axis=1)
            for i, part in zip(places, parts, strict=True):
                found[i] = tf.cast(part, leaves[i].dtype)
        return tf.nest.pack_sequence_as(self._specs, found)


def _joined(leaves: list[Tensor]) -> Tensor:
    """One leaf as it is; several as one tensor of float32 with a leading axis."""
    return leaves[0] if len(leaves) == 1 else tf.stack([tf.cast(each, tf.float32) for each in leaves])
