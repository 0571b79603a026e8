"""Gradients by back-propagation, on the whole batch at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from rl.agents.algos.grad_comp.registry import register
from rl.agents.contracts import checked_loss
from rl.agents.guard import unfit
from rl.hparams.hparams import HParams
from rl.ops.loops import Metrics
from rl.parallel import replicas
from rl.parallel.fused import fused
from rl.types import Tensor, Update

# From a loss's metrics to a bool scalar, the same for all learners: True if its gradients must not be
# applied.
Refusal = Callable[[dict[str, Tensor]], Tensor]


@register
def backprop(hparams: HParams) -> Any:
    """The batch's mean gradient, clipped to `max_grad_norm` over all variables, then the optimizer.

    With several learners, the mean is over the batches of all of them.
    """

    def compute(
        loss_fn: Any, batch: Any, variables: list[Any], optimizer: Any, unless: Refusal | None = None
    ) -> Update:
        with tf.GradientTape() as tape:
            loss, metrics, priorities = checked_loss(loss_fn(batch), batch.mask, hparams.algo)  # [N]
            # Losses are per example and already weighed by the mask; the mean is over what counts.
            counted = replicas.total(tf.reduce_sum(batch.mask))
            share = tf.reduce_sum(loss) / tf.maximum(counted, 1.0)
        gradients = tape.gradient(
            share,
            [variable.value for variable in variables],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,  # a head that this loss leaves out
        )
        metrics = {"loss": share * replicas.count(), **metrics}
        refused = None if unless is None else unless(metrics)
        gradients = common(gradients, metrics, optimizer)
        metrics |= apply_gradients(gradients, variables, optimizer, hparams.max_grad_norm, refused)
        return Update(metrics, priorities)

    return compute


def common(gradients: list[Tensor], metrics: Metrics, optimizer: Any) -> list[Tensor]:
    """Returns the gradients summed over all learners. The same exchange tells them whether the loss or one of
    its metrics is NaN or infinite for any learner (`rl.agents.guard`)."""
    *gradients, flags = replicas.totals([*gradients, unfit(metrics)])
    optimizer.note_loss(metrics, flags)
    return gradients


def apply_gradients(
    gradients: list[Tensor],
    variables: list[Any],
    optimizer: Any,
    max_grad_norm: float | None,
    refused: Tensor | None = None,
) -> dict[str, Tensor]:
    """Clips by the global norm and applies; returns the norm before clipping.

    refused: bool scalar, the same for all learners; where it is true nothing is applied. It is returned
    too, as 0 or 1.
    """

    def apply(*gradients: Tensor) -> Tensor:
        norm = tf.linalg.global_norm(gradients)
        if max_grad_norm is not None:
            scale = tf.minimum(1.0, max_grad_norm / (norm + 1e-6))
            gradients = tuple(gradient * scale for gradient in gradients)
        optimizer.apply(list(gradients), variables, norm)
        return norm

    if refused is None:
        return {"grad_norm": fused(apply, *gradients)}
    norm = tf.cond(refused, lambda: tf.linalg.global_norm(gradients), lambda: fused(apply, *gradients))
    return {"grad_norm": norm, "refused": tf.cast(refused, tf.float32)}
