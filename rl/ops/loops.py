"""Loops inside compiled code that carry named metrics without knowing their names in advance."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from rl.types import Tensor

MAX_METRICS = 48


class MetricPack:
    """Packs named float scalars in one vector, so that a while loop or a cond can carry them.

    A loop must know the structure of what it carries before its body is traced; the names of the
    metrics are known only after. A vector of fixed length settles that: the names are noted when the
    body is traced (`pack`), and given back to the vector afterwards (`unpack`).
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()

    def pack(self, metrics: dict[str, Tensor]) -> Tensor:
        """float32 [MAX_METRICS]. Raises ValueError when there are too many, or other names than before."""
        names = tuple(sorted(metrics))
        if len(names) > MAX_METRICS:
            raise ValueError(f"{len(names)} metrics, at most {MAX_METRICS}: {', '.join(names)}")
        if self.names and names != self.names:
            raise ValueError(f"metrics changed between traces: {self.names} and {names}")
        self.names = names
        values = [tf.cast(metrics[name], tf.float32) for name in names]
        return tf.stack(values + [tf.constant(0.0)] * (MAX_METRICS - len(names)))

    def unpack(self, vector: Tensor) -> dict[str, Tensor]:
        return {name: vector[i] for i, name in enumerate(self.names)}

    @staticmethod
    def zeros() -> Tensor:
        return tf.zeros([MAX_METRICS])


def repeat(
    times: int,
    body: Callable[[Tensor], dict[str, Tensor]],
    stop: Callable[[dict[str, Tensor]], Tensor] | None = None,
) -> tuple[dict[str, Tensor], Tensor]:
    """Calls `body(i)` `times` times in one while loop; `stop(metrics)` true ends it early.

    Returns the mean of each metric over the passes made, and their number (float32 scalar).
    """
    pack = MetricPack()

    def step(i: Tensor, _: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        metrics = body(i)
        stopped = tf.constant(False) if stop is None else stop(metrics)
        return i + 1, stopped, total + pack.pack(metrics)

    count, _, total = tf.while_loop(
        lambda i, stopped, _: tf.logical_and(i < times, tf.logical_not(stopped)),
        step,
        (tf.constant(0), tf.constant(False), MetricPack.zeros()),
        maximum_iterations=times,
    )
    made = tf.cast(count, tf.float32)
    return pack.unpack(total / tf.maximum(made, 1.0)), made
