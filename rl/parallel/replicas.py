"""Sums, means and extremes over several learners, each of which has its own part of the data.

Learners are processes, which join a group (`rl.workers.peers`), or the devices of one process
(`rl.parallel.devices`). From then on the functions here are sums, means and extremes over all of them,
exchanged inside the compiled function: between devices by TensorFlow's collective operations, between
processes by the group's `exchange`. Each learner must call them in the same order. With a single learner they
return their arguments, and add nothing to the graph.

They are used wherever a batch is averaged or steps are counted: by `grad_comp` and optimizers, algorithms
whose updates depend on more than a gradient, normalisers, priorities, random numbers by rows, and metrics.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from rl.types import Tensor

_PROCESSES = 0  # the group of processes, in place of a key
_KEY = 7919  # tells these groups from those that tf.distribute makes for itself, which count from 0


class Group(NamedTuple):
    """The learners of a run, as one of them sees them."""

    size: int = 1
    rank: int = 0  # which one this process is
    in_process: bool = False  # whether the others are devices of this process: rank is then the device's
    # Between processes, (number of the exchange, float32 array) to the sum over all learners.
    exchange: Callable[[int, np.ndarray], np.ndarray] | None = None


class _State:
    group = Group()
    # Traced so far, by group and rank; the same number means the same exchange for all.
    exchanges: ClassVar[Counter[tuple[int, int]]] = Counter()
    turn: tf.Variable | None = None  # what every exchange between processes changes


def join(group: Group) -> None:
    """Sets the number of learners and this process's rank, before anything is traced."""
    _State.group = group
    _State.exchanges.pop((_PROCESSES, group.rank), None)
    _State.turn = None if group.exchange is None else tf.Variable(0, dtype=tf.int64, trainable=False)


@contextlib.contextmanager
def devices(number: int) -> Iterator[None]:
    """Makes everything in the `with` block be built and traced for `number` devices of this process. Raises
    ValueError where there are several, and the process is one of several learners."""
    if number > 1 and _State.group.size > 1:
        raise ValueError("learners in several processes have one device each")
    before = _State.group
    if number > 1:
        _State.group = Group(number, in_process=True)
    try:
        yield
    finally:
        _State.group = before


def count() -> int:
    """Returns how many learners there are."""
    return _State.group.size


def rank() -> int | Tensor:
    """Returns this learner's rank: a number, on a TPU an int32 scalar; for devices, 0 outside of their
    function."""
    if not _State.group.in_process:
        return _State.group.rank
    context = tf.distribute.get_replica_context()
    if context is None or tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return 0
    place = context.replica_id_in_sync_group
    known = tf.get_static_value(place)
    return place if known is None else int(known)


def total(x: Tensor) -> Tensor:
    """Returns the sum over all learners, float32 of x's shape."""
    if count() == 1:
        return x
    if not _State.group.in_process:
        return _exchanged(x)
    place = rank()
    if isinstance(place, int):
        return _reduced(x, place, _KEY + count())
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, x)


def mean(x: Tensor) -> Tensor:
    """Returns the mean over all learners, float32 of x's shape."""
    return x if count() == 1 else total(x) / count()


def gathered(x: Tensor) -> Tensor:
    """Returns the tensors of all learners, by rank, joined along the first axis: [N, ...] to [R N, ...]."""
    if count() == 1:
        return x
    mine = tf.reshape(tf.range(count()) == rank(), [count()] + [1] * x.shape.rank)
    every = total(tf.where(mine, x[None], tf.zeros_like(x)[None]))  # [R, N, ...]
    return tf.reshape(every, [-1, *x.shape[1:]])


def smallest(x: Tensor) -> Tensor:
    """Returns the least over all learners of a float32 scalar."""
    return x if count() == 1 else tf.reduce_min(gathered(x[None]))


def own_rows(x: Tensor) -> Tensor:
    """Returns this learner's rows of a tensor that is the same for all learners, [R N, ...] to [N, ...]."""
    if count() == 1:
        return x
    size = x.shape[0] // count()
    start = rank() * size
    return tf.slice(x, [start] + [0] * (x.shape.rank - 1), [size, *x.shape[1:]])


def totals(tensors: list[Tensor]) -> list[Tensor]:
    """Returns the sums of several tensors over all learners, in one exchange."""
    if count() == 1:
        return tensors
    flat = total(tf.concat([tf.reshape(each, [-1]) for each in tensors], 0))
    parts = tf.split(flat, [each.shape.num_elements() for each in tensors])
    return [tf.reshape(part, each.shape) for part, each in zip(parts, tensors, strict=True)]


def _exchanged(x: Tensor) -> Tensor:
    exchange, turn = _State.group.exchange, _State.turn
    assert exchange is not None and turn is not None
    _State.exchanges[_PROCESSES, _State.group.rank] += 1
    number = _State.exchanges[_PROCESSES, _State.group.rank]
    # TensorFlow runs operations in any order, except those that change the same variable: these run in the
    # order in which they were traced, also in and around loops.
    with tf.control_dependencies([turn.assign_add(1)]):
        found = tf.numpy_function(lambda values: exchange(number, values), [x], tf.float32)
    with tf.control_dependencies([found]):
        turn.assign_add(1)
    found.set_shape(x.shape)
    return found


def _reduced(x: Tensor, place: int, group: int) -> Tensor:
    _State.exchanges[group, place] += 1
    return tf.raw_ops.CollectiveReduceV2(
        input=x,
        group_size=count(),
        group_key=group,
        instance_key=_State.exchanges[group, place],
        ordering_token=[],
        merge_op="Add",
        final_op="Id",
    )
