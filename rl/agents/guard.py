"""Updates of NaN or infinity are not made: the one place through which every update goes.

An update is what one call of `Agent.learn` does: of algorithms that learn from rollouts, all that they learn
from one. Four things of it are looked at: the observations and the rewards that it learns from, then in each
of its gradient steps the loss with its metrics (`note_loss`, called by grad_comps) and the norm of the
gradients (`note_gradient`, called by every optimizer of `rl/agents/optimizers.py`). From the first of them
that is NaN or infinite, which is noted, the update changes nothing more: what optimizers and target networks
assign is `unless_closed`, which costs nothing beside their arithmetic, and all else that an agent has is put
back at the end. (Steps that the update made before, of other minibatches or networks, were finite and stay.)
Several learners exchange what they find, and so decide alike.

After `nan_patience` such updates in a row none is made any more, until the trainer has gone back to a
checkpoint (`rl/runners/health.py`): what follows does not depend on when that looks.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from rl.ops import loops
from rl.parallel import replicas
from rl.types import Batch, Nest, SequenceBatch, Tensor, Trajectory, Update

COUNTS = ("made", "skipped", "in_a_row", "first", "bad")  # one variable: each costs microseconds per call
_MADE, _SKIPPED, _IN_A_ROW, _FIRST, _BAD = range(len(COUNTS))

# Of the update that is traced, or made eagerly; None outside of one.
_current: contextvars.ContextVar[Guard | None] = contextvars.ContextVar("guard", default=None)


class Guard:
    """Counts an agent's updates, leaves out those that are not finite, and knows why.

    Args:
        patience: how many updates in a row may be left out before all are.

    Attributes:
        lr_scale: by what all learning rates are multiplied; 1 before the run has gone back.
        rollbacks: times that it has.
    """

    def __init__(self, patience: int):
        self.patience = patience
        self._counts = tf.Variable([0] * len(COUNTS), dtype=tf.int64, trainable=False, name="guard_counts")
        self.lr_scale = tf.Variable(1.0, trainable=False, name="guard_lr_scale")
        self.rollbacks = 0
        self._parts: list[str] = []  # in words; "bad" and "first" count from 1, 0: none
        self._told = ""  # the first part of before a restart

    # -- within an update -----------------------------------------------------------------------------

    @contextlib.contextmanager
    def update(self, experience: Any) -> Iterator[None]:
        """Begins an update that learns from a `Batch`, `SequenceBatch` or `Trajectory`."""
        found = _experienced(experience)
        flags = tf.stack([_unfit(leaves) for leaves in found.values()])
        if replicas.count() > 1:
            flags = replicas.total(flags)
        bad, counts = self._first_of(list(found), flags), self._now()
        self._set_bad(counts, tf.where(counts[_IN_A_ROW] >= self.patience, _number(1), bad))
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    @property
    def closed(self) -> Tensor:
        """Whether the update under way changes nothing more, bool scalar."""
        return self._now()[_BAD] > 0

    def note_loss(self, name: str, metrics: loops.Metrics, flags: Tensor) -> None:
        """Takes in what `unfit(metrics)` says, by all learners, of a step of the optimizer `name`."""
        if metrics:
            words = [f"the loss of {name}" if each == "loss" else f"{each}, in the loss of {name}"
                     for each in metrics]  # fmt: skip
            order = sorted(range(len(words)), key=lambda i: list(metrics)[i] == "loss")  # its terms first
            self._note(self._first_of([words[i] for i in order], tf.gather(flags, order)))

    def note_gradient(self, name: str, gradients: list[Tensor], norm: Tensor | None) -> None:
        """Takes in the gradients of a step of the optimizer `name`, the same for all learners. norm: theirs,
        where it is known."""
        norm = tf.linalg.global_norm(gradients) if norm is None else norm
        self._note(self._first_of([f"the gradient of {name}"], _unfit([norm])[None]))

    def finish(self, update: Update, before: list[tuple[Any, Tensor]]) -> Update:
        """Ends an update; returns what counts of it.

        before: variables whose changes are not `unless_closed`, and what they were when it began.
        """
        made, skipped, in_a_row, first, part = self._now()
        bad = part > 0
        one = tf.cast(bad, tf.int64)
        first = tf.where(first == 0, part, first)
        self._counts.assign(tf.stack([made + 1 - one, skipped + one, (in_a_row + 1) * one, first, part]))

        loops.put_back(bad, before)
        priorities = update.priorities
        if priorities is not None:  # those that are no number leave a memory's as they were
            priorities = tf.where(bad, tf.cast(float("nan"), priorities.dtype), priorities)
        return Update(loops.unless(bad, {"updates": tf.constant(1.0), **update.metrics}), priorities)

    def _note(self, number: Tensor) -> None:
        counts = self._now()
        self._set_bad(counts, tf.where(counts[_BAD] == 0, number, counts[_BAD]))

    def _now(self) -> list[Tensor]:
        return list(tf.unstack(self._counts.value()))

    def _set_bad(self, counts: list[Tensor], number: Tensor) -> None:
        self._counts.assign(tf.stack([*counts[:_BAD], number]))

    def _first_of(self, parts: list[str], flags: Tensor) -> Tensor:
        """Returns the number of the first part whose flag [K] is not 0; 0 where all are."""
        for part in parts:
            if part not in self._parts:
                self._parts.append(part)
        numbers = [self._parts.index(part) + 1 for part in parts]
        # The first part has the highest rank; few operations, however many parts there are.
        rank = tf.reduce_max(tf.where(flags != 0.0, tf.range(len(parts), 0, -1), 0))
        return tf.gather(tf.constant([0, *reversed(numbers)], tf.int64), rank)

    # -- on the host ----------------------------------------------------------------------------------

    @property
    def variables(self) -> list[tf.Variable]:
        """What several learners have alike, and further updates depend on."""
        return [self._counts, self.lr_scale]

    @property
    def made(self) -> int:
        """Updates that were made, since this process began."""
        return self._host(_MADE)

    @property
    def skipped(self) -> int:
        """Updates that were left out, since the row of metrics before."""
        return self._host(_SKIPPED)

    @property
    def in_a_row(self) -> int:
        """Those of them that no other one has followed."""
        return self._host(_IN_A_ROW)

    def go_on(self, lr_scale: float) -> None:
        """Begins anew, as after a way back, with another factor of the learning rates."""
        self.lr_scale.assign(lr_scale)
        self._set({"in_a_row": 0})

    def first(self) -> str:
        """Returns what was first found to be NaN or infinite since the last row, in words; "" for nothing."""
        number = self._host(_FIRST)
        return self._told or (self._parts[number - 1] if number else "")

    def begin_window(self) -> None:
        """Forgets what was found and counted for a row of metrics."""
        self._told = ""
        self._set({"skipped": 0, "first": 0})

    def saved(self) -> dict[str, Any]:
        """Returns what a checkpoint must know, for JSON."""
        counts, scale = {"skipped": self.skipped, "in_a_row": self.in_a_row}, float(self.lr_scale.numpy())
        return {**counts, "first": self.first(), "rollbacks": self.rollbacks, "lr_scale": scale}

    def resume(self, found: dict[str, Any] | None) -> None:
        """Goes on with what `saved` gave; None: in a checkpoint of a version that knew of none."""
        if found is not None:
            self.rollbacks, self._told = found["rollbacks"], found["first"]
            self.lr_scale.assign(found["lr_scale"])
            self._set({name: found[name] for name in ("skipped", "in_a_row")})

    def _host(self, place: int) -> int:
        return int(self._counts.numpy()[place])

    def _set(self, new: Mapping[str, int]) -> None:
        counts = self._counts.numpy()
        for name, number in new.items():
            counts[COUNTS.index(name)] = number
        self._counts.assign(counts)


def current() -> Guard | None:
    """Returns the guard of the update that is under way; None outside of one."""
    return _current.get()


def unless_closed(value: Tensor, instead: Any) -> Tensor:
    """Returns the value, or where the update under way changes nothing more, the one `instead`."""
    guard = current()
    return value if guard is None else tf.where(guard.closed, tf.cast(instead, value.dtype), value)


def unguarded(
    variables: Mapping[str, Any], optimizers: Mapping[str, Any], networks: Mapping[str, Any]
) -> list[Any]:
    """Returns those of an agent's variables that an update may change without asking `unless_closed`: all but
    its optimizers' own, what these learn, target networks, and what is counted of observations."""
    asks: set[int] = set()
    for optimizer in optimizers.values():
        asks |= {id(each) for each in (*optimizer.variables, *optimizer._trainable_variables)}
    for name, network in networks.items():
        if name.startswith("target"):
            asks |= {id(each) for each in network.trainable_variables}
    return [x for name, x in variables.items() if id(x) not in asks and not name.startswith("encoder/")]


@contextlib.contextmanager
def checked_numerics(on: bool) -> Iterator[None]:
    """Lets, where `on`, the first operation that gives NaN or infinity within raise, at its line; for code
    that runs eagerly."""
    if not on:
        yield
        return
    tf.debugging.enable_check_numerics()
    try:
        yield
    finally:
        tf.debugging.disable_check_numerics()


def unfit(metrics: loops.Metrics) -> Tensor:
    """Returns which metrics are NaN or infinite, float32 [K] of 0 and 1. The greatest, least or last of some
    is infinite where there was none, which is well."""
    if not metrics:
        return tf.zeros([1])
    values = tf.stack([tf.cast(loops.value_of(each), tf.float32) for each in metrics.values()])
    compared = [loops.kind(each) in ("max", "min", "last") for each in metrics.values()]
    wrong = tf.logical_not(tf.math.is_finite(values))
    if any(compared):
        wrong = tf.where(compared, tf.math.is_nan(values), wrong)
    return tf.cast(wrong, tf.float32)


def _experienced(experience: Any) -> dict[str, list[Tensor]]:
    """Returns what of an update's experience is looked at, by its name in words."""
    rows = experience.trajectory if isinstance(experience, SequenceBatch) else experience
    if not isinstance(rows, Batch | Trajectory):
        return {"the observation": []}
    observation: Nest = [rows.observation, rows.next_observation if isinstance(rows, Batch) else ()]
    return {"the observation": tf.nest.flatten(observation), "the reward": [rows.reward]}


def _number(value: int) -> Tensor:
    return tf.constant(value, tf.int64)


def _unfit(tensors: list[Tensor]) -> Tensor:
    """Returns 1 where any number of floating point is NaN or infinite, else 0: float32 scalar."""
    kept = [x for x in map(tf.convert_to_tensor, tensors) if x.dtype.is_floating]
    finite = [tf.reduce_all(tf.math.is_finite(x)) for x in kept]
    return 1.0 - tf.cast(tf.reduce_all(finite), tf.float32) if finite else tf.constant(0.0)
