"""Batches that were sampled elsewhere, by buffers in processes of their own (`rl.workers.buffer`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from rl.errors import UsageError
from rl.memory.contract import Memory
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
        """Returns the i-th batch of the iteration, each tensor [N, ...]; i: integer scalar."""
        return tf.nest.map_structure(lambda x: tf.gather(x, i), self._batches)

    def update_priorities(self, i: Tensor, batch: Nest, priorities: Tensor) -> None:
        """Notes the priorities [N] of the i-th batch."""
        self._priorities.scatter_update(tf.IndexedSlices(tf.cast(priorities, tf.float32)[None], i[None]))

    def priorities(self) -> Tensor:
        """Returns the priorities of all batches, float32 [U, N]."""
        return self._priorities.read_value()


def sampled_structure(make_memory: Callable[..., Memory], spec: MemorySpec, hparams: Any) -> Nest:
    """Returns the structure of a memory's batch, with TensorSpecs in place of tensors. To find it, a memory
    is made that is as small as the hparams allow.

    Raises:
        UsageError: the hparams do not fit together.
    """
    own = type(hparams).from_dict(hparams.to_dict())
    own.min_replay_size = 1
    own.replay_capacity = min(2 * spec.num_envs * spec.rollout_length, hparams.replay_capacity)
    while True:
        try:
            memory = make_memory(spec, own)
            break
        except UsageError:
            if own.replay_capacity >= hparams.replay_capacity:
                raise
        own.replay_capacity = min(2 * own.replay_capacity, hparams.replay_capacity)

    def sample() -> Nest:
        return memory.sample(tf.constant([0, 0]), tf.constant(0, tf.int64))

    return traced_structure(sample)


def traced_structure(function: Callable[..., Nest], *arguments: Tensor) -> Nest:
    """Returns the structure of a function's result, with TensorSpecs in place of tensors; traces the function
    without running it."""
    found = tf.function(function, autograph=False).get_concrete_function(*arguments).structured_outputs
    return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), found)
