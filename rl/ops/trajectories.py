"""Parts of trajectories: what minibatches and microbatches of whole sequences are made of."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.types import SequenceBatch, Tensor, Trajectory


def take(batch: Any, index: Tensor) -> Any:
    """The examples of a batch at `index`, int32 [n].

    Of a `Trajectory` or `SequenceBatch` an example is one environment's whole sequence (their second axis,
    and the first of the recurrent state); of any other nest it is a place on the first axis.
    """
    if isinstance(batch, SequenceBatch):
        rest = batch._replace(trajectory=())
        return take(rest, index)._replace(trajectory=take(batch.trajectory, index))
    if isinstance(batch, Trajectory):
        state = tf.nest.map_structure(lambda x: tf.gather(x, index), batch.recurrent_state)
        rest = batch._replace(recurrent_state=())
        return tf.nest.map_structure(lambda x: tf.gather(x, index, axis=1), rest)._replace(
            recurrent_state=state
        )
    return tf.nest.map_structure(lambda x: tf.gather(x, index), batch)


def count(batch: Any) -> int:
    """How many examples, in the sense of `take`, a batch has."""
    if isinstance(batch, SequenceBatch):
        return int(batch.mask.shape[0])
    return int(batch.mask.shape[1 if isinstance(batch, Trajectory) else 0])
