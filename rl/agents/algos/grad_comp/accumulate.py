"""Gradients summed over microbatches: a batch's whole gradient in a part of the memory."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.algos.grad_comp.backprop import Refusal, apply_gradients, backprop, common
from rl.agents.algos.grad_comp.registry import register
from rl.agents.contracts import checked_loss
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.ops import loops, random, trajectories
from rl.parallel import replicas
from rl.types import Tensor, Trajectory, Update


@register
def accumulate(hparams: HParams) -> Any:
    """As `backprop`, the batch in `microbatches` equal parts one after another: the same mean gradient.

    Losses are summed over all parts and divided once, so that each unmasked example has the same weight.
    Metrics are means weighted by the parts' masks. Noise that a loss draws for each example (`random.rows`)
    is that of the whole batch. Statistics that a loss computes over its batch, such as PPO's standardised
    advantages, are over a part.
    """
    parts = hparams.microbatches
    if parts == 1:
        return backprop(hparams)

    def compute(
        loss_fn: Any, batch: Any, variables: list[Any], optimizer: Any, unless: Refusal | None = None
    ) -> Update:
        size = _part_size(batch, parts)
        values = [tf.convert_to_tensor(variable) for variable in variables]
        own = tf.reduce_sum(batch.mask)
        total = tf.maximum(replicas.total(own), 1.0)
        pack = loops.MetricPack()
        priorities: list[Tensor] = []  # noted by the trace: whether the loss has any

        def body(i: Tensor, gradients: list[Tensor], sums: Tensor, array: tf.TensorArray) -> tuple[Any, ...]:
            part = trajectories.take(batch, i * size + tf.range(size))
            weight = tf.reduce_sum(part.mask) / tf.maximum(own, 1.0)
            with tf.GradientTape() as tape, random.microbatch(i, parts):
                loss, metrics, found = checked_loss(loss_fn(part), part.mask, hparams.algo)
                share = tf.reduce_sum(loss) / total
            added = tape.gradient(
                share,
                [variable.value for variable in variables],
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            gradients = [each + more for each, more in zip(gradients, added, strict=True)]
            if found is not None:
                priorities.append(found)
                array = array.write(i, found)
            metrics = {"loss": share * replicas.count()} | loops.weighted(metrics, weight)
            return i + 1, gradients, pack.join(sums, pack.pack(metrics)), array

        zeros = [tf.zeros_like(value) for value in values]
        array = tf.TensorArray(tf.float32, parts, element_shape=[size])
        _, gradients, sums, array = tf.while_loop(
            lambda i, *_: i < parts,
            body,
            (tf.constant(0), zeros, tf.constant(loops.MetricPack.empty()), array),
            maximum_iterations=parts,
        )
        metrics = pack.unpack(sums)
        refused = None if unless is None else unless(metrics)
        gradients = common(gradients, metrics, optimizer)
        metrics |= apply_gradients(gradients, variables, optimizer, hparams.max_grad_norm, refused)
        # Stacked, not joined: what `concat` gives has no static shape, which a TPU wants.
        return Update(metrics, tf.reshape(array.stack(), [-1]) if priorities else None)

    return compute


def _part_size(batch: Any, parts: int) -> int:
    size = trajectories.count(batch)
    if size % parts:
        what = "environments" if isinstance(batch, Trajectory) else "examples"
        raise UsageError(f"hparam microbatches={parts} does not divide the batch's {size} {what}")
    return size // parts
