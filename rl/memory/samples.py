"""Batches that were sampled elsewhere, by buffers in processes of their own (`rl.workers.buffer`)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.memory.spec import MemorySpec
from rl.types import Nest, Tensor


class Samples:
    """The batches of one iteration, and the priorities that the algorithm gives them.

    Args:
        updates: U, batches of an iteration.
        batch_size: N.
    """

    def __init__(self, updates: int, batch_size: int):
        self._priorities = tf.Variable(tf.zeros([updates, batch_size]), trainable=False)
        self._batches: Nest = ()

    def feed(self, batches: Nest) -> None:
        """Takes the batches, each tensor [U, N, ...]; of a graph that is being traced."""
        self._batches = batches

    def sample(self, i: Tensor) -> Nest:
        """The i-th batch."""
        return tf.nest.map_structure(lambda x: tf.gather(x, i), self._batches)

    def update_priorities(self, i: Tensor, batch: Nest, priorities: Tensor) -> None:
        """Notes the priorities [N] of the i-th batch."""
        self._priorities.scatter_update(tf.IndexedSlices(tf.cast(priorities, tf.float32)[None], i[None]))

    def priorities(self) -> Tensor:
        """Those of all batches, float32 [U, N]."""
        return self._priorities.read_value()


def sampled_structure(make_memory: Any, spec: MemorySpec, hparams: Any) -> Nest:
    """A batch of that memory, its tensors replaced by their TensorSpecs. Nothing is allocated."""
    with tf.Graph().as_default():
        memory = make_memory(spec, hparams)
        batch = memory.sample(tf.constant([0, 0]), tf.constant(0, tf.int64))
        return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), batch)
