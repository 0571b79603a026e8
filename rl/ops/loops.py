"""Loops inside compiled code that carry named metrics without knowing their names in advance.

A metric is a float scalar with a name. By default it is averaged: over the passes of a loop, microbatches,
updates and learners. Other kinds are marked: `{"loss": x, "clipped": Sum(y), "largest": Max(z)}`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from rl.parallel import replicas
from rl.types import Tensor

ADDED, COMPARED = 48, 16  # the largest numbers of metrics: of means and sums; of all others
MAX_METRICS = ADDED + COMPARED
NONE = -np.inf  # a max, min or last without a value yet


class Sum(NamedTuple):
    """A metric that is added up."""

    value: Any


class Max(NamedTuple):
    """A metric whose greatest value is kept; -inf without values."""

    value: Any


class Min(NamedTuple):
    """A metric whose least value is kept; inf without values."""

    value: Any


class Last(NamedTuple):
    """A metric whose last value is kept; with several learners, the first learner's."""

    value: Any


Metrics = dict[str, Any]  # name to a scalar, or to one in a `Sum`, `Max`, `Min` or `Last`
_TYPES: dict[str, Any] = {"sum": Sum, "max": Max, "min": Min, "last": Last}


def kind(metric: Any) -> str:
    """Returns "mean", "sum", "max", "min" or "last"."""
    return next((name for name, each in _TYPES.items() if isinstance(metric, each)), "mean")


def value_of(metric: Any) -> Any:
    """Returns the scalar itself, of a metric of any kind."""
    return metric if kind(metric) == "mean" else metric.value


def places(kinds: dict[str, str]) -> dict[str, int]:
    """Returns the index of each metric in the packed vector, by name. kinds: name to kind.

    Raises:
        ValueError: there are too many metrics.
    """
    added = sorted(name for name, each in kinds.items() if each in ("mean", "sum"))
    compared = sorted(kinds.keys() - set(added))
    if len(added) > ADDED or len(compared) > COMPARED:
        raise ValueError(
            f"{len(added)} metrics that are means or sums, at most {ADDED}, and {len(compared)} others, at "
            f"most {COMPARED}: {', '.join(sorted(kinds))}"
        )
    return {name: i for i, name in enumerate(added)} | {name: ADDED + i for i, name in enumerate(compared)}


class MetricPack:
    """Packs named float scalars in one vector, so that a while loop or a cond can carry them.

    A loop must know the structure of what it carries before its body is traced; the names of the
    metrics are known only after. A vector of fixed length settles that: the names are noted when the
    body is traced (`pack`), and given back to the vector afterwards (`unpack`).

    Attributes:
        kinds: name to kind, of all metrics; empty before the first `pack`.
    """

    def __init__(self, kinds: dict[str, str] | None = None) -> None:
        self.kinds: dict[str, str] = {}
        self._note(kinds or {})

    def _note(self, kinds: dict[str, str]) -> None:
        self.kinds, self._places = kinds, places(kinds)
        compared = {kinds[name] for name, place in self._places.items() if place >= ADDED}
        self._compares, self._keeps_last = bool(compared), "last" in compared

    def pack(self, metrics: Metrics) -> Tensor:
        """Returns float32 [MAX_METRICS].

        Raises:
            ValueError: there are too many metrics, or other ones than before.
        """
        kinds = {name: kind(metrics[name]) for name in sorted(metrics)}
        if self.kinds and kinds != self.kinds:
            raise ValueError(f"metrics changed between traces: {self.kinds} and {kinds}")
        values = [tf.constant(0.0)] * MAX_METRICS
        self._note(kinds)
        for name, place in self._places.items():
            value = value_of(metrics[name])
            values[place] = tf.cast(-value if kinds[name] == "min" else value, tf.float32)
        return tf.stack(values)

    def unpack(self, vector: Tensor, passes: Tensor | None = None) -> Metrics:
        """Returns the metrics of a vector. passes: if given, means are sums over that many passes, and are
        divided by it."""
        values, metrics = tf.unstack(vector), {}  # one operation, however many metrics
        means = values if passes is None else tf.unstack(vector / passes)
        for name, place in self._places.items():
            if self.kinds[name] == "mean":
                metrics[name] = means[place]
            else:
                value = -values[place] if self.kinds[name] == "min" else values[place]
                metrics[name] = _TYPES[self.kinds[name]](value)
        return metrics

    def join(self, before: Tensor, after: Tensor) -> Tensor:
        """Combines two vectors in time order: means and sums are added; of the others the greatest, least or
        last value is kept."""
        added = before + after
        if not self._compares:
            return added
        stays = tf.logical_or(tf.math.is_nan(before), before >= after)
        if self._keeps_last:
            stays = tf.where(self._places_of("last"), after == NONE, stays)
        return tf.where(self._places_of("mean", "sum"), added, tf.where(stays, before, after))

    def add(self, total: np.ndarray, vector: np.ndarray) -> None:
        """Joins a vector to `total` in place, with NumPy, which is faster between two iterations on the
        host."""
        total[:ADDED] += vector[:ADDED]
        if self._compares:
            last = np.where(vector == NONE, total, vector) if self._keeps_last else total
            np.maximum(total[ADDED:], vector[ADDED:], out=total[ADDED:])
            if self._keeps_last:
                np.copyto(total, last, where=self._places_of("last"))

    def over_learners(self, vector: Tensor) -> Tensor:
        """Returns the vectors of all learners as one."""
        if replicas.count() == 1:
            return vector
        mean = replicas.mean(vector)
        if set(self.kinds.values()) == {"mean"}:
            return mean
        return tf.where(self._places_of("mean"), mean, self._joined(replicas.gathered(vector[None]), tf))

    def over_devices(self, vectors: list[np.ndarray]) -> np.ndarray:
        """Returns the vectors of several devices of this process as one."""
        if len(vectors) == 1:
            return vectors[0]
        mean: np.ndarray = np.sum(vectors, 0) / len(vectors)
        return np.where(self._places_of("mean"), mean, self._joined(np.stack(vectors), np))

    def _joined(self, vectors: Any, library: Any) -> Any:
        """Sums, greatest values and the first one's last of vectors [R, MAX_METRICS]."""
        add, largest = (np.sum, np.max) if library is np else (tf.reduce_sum, tf.reduce_max)
        rest = library.where(self._places_of("last"), vectors[0], largest(vectors, 0))
        return library.where(self._places_of("sum"), add(vectors, 0), rest)

    def _places_of(self, *kinds: str) -> np.ndarray:
        """Whether each place is of a metric of those kinds, bool [MAX_METRICS]."""
        found = np.zeros(MAX_METRICS, bool)
        found[[place for name, place in self._places.items() if self.kinds[name] in kinds]] = True
        return found

    @staticmethod
    def empty() -> np.ndarray:
        """Returns the vector of no metrics, which `join` begins with."""
        return np.array([0.0] * ADDED + [NONE] * COMPARED, np.float32)


def repeat(
    times: int,
    body: Callable[[Tensor], Metrics],
    stop: Callable[[Metrics], Tensor] | None = None,
) -> tuple[Metrics, Tensor]:
    """Calls `body(i)` `times` times in one while loop; `stop(metrics)` true ends it early.

    Returns the metrics over the passes made, and their number (float32 scalar).
    """
    pack = MetricPack()

    def step(i: Tensor, _: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        metrics = body(i)
        stopped = tf.constant(False) if stop is None else stop(metrics)
        return i + 1, stopped, pack.join(total, pack.pack(metrics))

    count, _, total = tf.while_loop(
        lambda i, stopped, _: tf.logical_and(i < times, tf.logical_not(stopped)),
        step,
        (tf.constant(0), tf.constant(False), tf.constant(MetricPack.empty())),
        maximum_iterations=times,
    )
    made = tf.cast(count, tf.float32)
    return pack.unpack(total, tf.maximum(made, 1.0)), made


def where(condition: Tensor, pack: MetricPack, body: Callable[[], Metrics]) -> Metrics:
    """Runs `body()` if the condition, a bool scalar, holds, and returns its metrics; otherwise returns them
    without values.

    pack: records the names; the same one at every call.
    """

    def packed() -> Tensor:
        return pack.pack(body())

    if tf.executing_eagerly() and not pack.kinds:
        # The body may not run yet, but rows of metrics need the names: trace without running.
        tf.function(packed, autograph=False).get_concrete_function()
    return pack.unpack(tf.cond(condition, packed, lambda: tf.constant(MetricPack.empty())))


def put_back(condition: Tensor, before: list[tuple[Any, Tensor]]) -> None:
    """Restores variables to the values in `before`, if the condition, a bool scalar, holds.

    The code that changed them must compile as if there were no restoring. A branch that only assigns would
    become selects, which XLA fuses with the code before them, and then that code rounds differently. So this
    branch also returns a useless value, which prevents that.
    """

    def given() -> Tensor:
        for variable, value in before:
            variable.assign(value)
        return tf.reverse(tf.stack([condition, condition]), [0])

    tf.cond(condition, given, lambda: tf.zeros([2], tf.bool))


def weighted(metrics: Metrics, weight: Tensor) -> Metrics:
    """Returns the metrics of a part: means times `weight`, the part's share of the whole; others
    unchanged."""
    return {name: x if kind(x) != "mean" else weight * x for name, x in metrics.items()}


def unless(condition: Tensor, metrics: Metrics) -> Metrics:
    """Returns the metrics, or, if the condition (a bool scalar) holds, the metrics of no pass at all."""
    kept: Metrics = {}
    for name, metric in metrics.items():
        each = kind(metric)
        none = {"max": NONE, "last": NONE, "min": -NONE}.get(each, 0.0)
        value = tf.where(condition, none, tf.cast(value_of(metric), tf.float32))
        kept[name] = value if each == "mean" else _TYPES[each](value)
    return kept


def summed(metrics: Metrics) -> Metrics:
    """Multiplies means by the metric "updates", so that they become sums over updates; others are
    unchanged."""
    updates = metrics["updates"]
    return {name: x if kind(x) != "mean" or name == "updates" else x * updates for name, x in metrics.items()}
