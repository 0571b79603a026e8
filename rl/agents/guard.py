"""Skips updates with NaN or infinity: every update of an agent passes through this guard.

An update is one call of `Agent.learn`: for on-policy algorithms, all learning from one rollout. The guard
checks the observations and the rewards, and in each gradient step the loss with its metrics (`note_loss`,
called by grad_comps) and the norm of the gradients (`note_gradient`, called by every optimizer of
`rl/agents/optimizers.py`). It records the first one that is NaN or infinite, and from there on the update
changes nothing more: assignments of optimizers and target networks go through `unless_closed`, which costs
nothing beside their arithmetic, and all other variables of the agent are restored at the end. (Earlier
gradient steps of the update, of other minibatches or networks, were finite and are kept.) Several learners
exchange their findings, and so decide alike.
After `nan_patience` skipped updates in a row all further ones are skipped, until the trainer has gone back to
a checkpoint (`rl/runners/health.py`): the outcome does not depend on when the trainer checks.
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

# The guard of the update that is being traced or run eagerly; None outside of an update.
_current: contextvars.ContextVar[Guard | None] = contextvars.ContextVar("guard", default=None)


class Guard:
    """Counts an agent's updates, skips those that are not finite, and records the reason.

    Args:
        patience: how many updates in a row may be skipped before all further ones are.

    Attributes:
        lr_scale: factor of all learning rates; 1 until the run goes back to a checkpoint.
        rollbacks: how often the run went back.
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
        """Whether the current update must change nothing more, bool scalar."""
        return self._now()[_BAD] > 0

    def note_loss(self, name: str, metrics: loops.Metrics, flags: Tensor) -> None:
        """Records `flags`, which is `unfit(metrics)` summed over all learners, of a step of the optimizer
        `name`."""
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
        """Ends an update; returns it, without metrics and with NaN as priorities if it was skipped.

        before: the variables that do not go through `unless_closed`, each with its value before the update.
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
        """The variables that are the same for all learners and that later updates depend on."""
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
        """Updates that were skipped since the last one that was made."""
        return self._host(_IN_A_ROW)

    def go_on(self, lr_scale: float) -> None:
        """Resets the counts after the run went back to a checkpoint, and sets the factor of learning
        rates."""
        self.lr_scale.assign(lr_scale)
        self._set({"in_a_row": 0})

    def first(self) -> str:
        """Returns what was first found to be NaN or infinite since the last row, in words; "" for nothing."""
        number = self._host(_FIRST)
        return self._told or (self._parts[number - 1] if number else "")

    def begin_window(self) -> None:
        """Resets the findings and counts of a row of metrics."""
        self._told = ""
        self._set({"skipped": 0, "first": 0})

    def saved(self) -> dict[str, Any]:
        """Returns what a checkpoint must know, for JSON."""
        counts, scale = {"skipped": self.skipped, "in_a_row": self.in_a_row}, float(self.lr_scale.numpy())
        return {**counts, "first": self.first(), "rollbacks": self.rollbacks, "lr_scale": scale}

    def resume(self, found: dict[str, Any] | None) -> None:
        """Restores what `saved` returned; None: the checkpoint is of a version without a guard."""
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
    """Returns the value, or `instead` if the current update must change nothing more."""
    guard = current()
    return value if guard is None else tf.where(guard.closed, tf.cast(instead, value.dtype), value)


def unguarded(
    variables: Mapping[str, Any], optimizers: Mapping[str, Any], networks: Mapping[str, Any]
) -> list[Any]:
    """Returns an agent's variables that updates may assign without `unless_closed`: all except its
    optimizers' variables, the variables that these train, target networks, the statistics of observations,
    and the experience that it keeps ("memory/"), which is written again before it is read."""
    asks: set[int] = set()
    for optimizer in optimizers.values():
        asks |= {id(each) for each in (*optimizer.variables, *optimizer._trainable_variables)}
    for name, network in networks.items():
        if name.startswith("target"):
            asks |= {id(each) for each in network.trainable_variables}
    passing = ("encoder/", "memory/")
    return [x for name, x in variables.items() if id(x) not in asks and not name.startswith(passing)]


@contextlib.contextmanager
def checked_numerics(on: bool) -> Iterator[None]:
    """Makes, if `on`, the first operation inside that returns NaN or infinity raise at its line; for eager
    code."""
    if not on:
        yield
        return
    tf.debugging.enable_check_numerics()
    try:
        yield
    finally:
        tf.debugging.disable_check_numerics()


def unfit(metrics: loops.Metrics) -> Tensor:
    """Returns which metrics are NaN or infinite, float32 [K] of 0 and 1. A `Max`, `Min` or `Last` without any
    value is infinite, which does not count."""
    if not metrics:
        return tf.zeros([1])
    values = tf.stack([tf.cast(loops.value_of(each), tf.float32) for each in metrics.values()])
    compared = [loops.kind(each) in ("max", "min", "last") for each in metrics.values()]
    wrong = tf.logical_not(tf.math.is_finite(values))
    if any(compared):
        wrong = tf.where(compared, tf.math.is_nan(values), wrong)
    return tf.cast(wrong, tf.float32)


def _experienced(experience: Any) -> dict[str, list[Tensor]]:
    """Returns the tensors of an update's experience that are checked, by readable names."""
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
