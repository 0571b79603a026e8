"""What several learners, each with its own part of the data, work out together.

A process joins a group of learners once (`rl.workers.peers`). From then on the functions here are sums, means
and extremes over all of them, exchanged inside the compiled function by TensorFlow's collective operations;
each learner must call them in the same order. Without a group they give back what they were given, and leave
nothing in the graph.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.types import Tensor

_KEY = 7919  # tells this group from those that tf.distribute makes for itself, which count from 0


class Group(NamedTuple):
    """The learners of a run, as one of them sees them."""

    size: int = 1
    rank: int = 0  # which one this process is


class _State:
    group = Group()
    exchanges = 0  # traced so far; the same number means the same exchange in every learner


def join(group: Group) -> None:
    """Says which of how many learners this process is, before anything is traced."""
    _State.group = group


def count() -> int:
    """How many learners there are."""
    return _State.group.size


def rank() -> int:
    """Which of them this one is."""
    return _State.group.rank


def total(x: Tensor) -> Tensor:
    """The sum over all learners, float32 of x's shape."""
    return _exchanged(x, "Add")


def mean(x: Tensor) -> Tensor:
    """The mean over all learners, float32 of x's shape."""
    return x if count() == 1 else total(x) / count()


def smallest(x: Tensor) -> Tensor:
    """The least over all learners, float32 of x's shape."""
    return _exchanged(x, "Min")


def totals(tensors: list[Tensor]) -> list[Tensor]:
    """The sums of several tensors over all learners, in one exchange."""
    if count() == 1:
        return tensors
    flat = total(tf.concat([tf.reshape(each, [-1]) for each in tensors], 0))
    parts = tf.split(flat, [each.shape.num_elements() for each in tensors])
    return [tf.reshape(part, each.shape) for part, each in zip(parts, tensors, strict=True)]


def _exchanged(x: Tensor, how: str) -> Tensor:
    if count() == 1:
        return x
    _State.exchanges += 1
    return tf.raw_ops.CollectiveReduceV2(
        input=x,
        group_size=count(),
        group_key=_KEY,
        instance_key=_State.exchanges,
        ordering_token=[],
        merge_op=how,
        final_op="Id",
    )
