"""Gradients estimated from the losses of perturbed parameters: nothing is differentiated."""

from __future__ import annotations

from typing import Any

from rl.agents.algos.grad_comp.backprop import apply_gradients
from rl.agents.algos.grad_comp.registry import register
from rl.agents.contracts import checked_loss
from rl.agents.guard import unfit
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.ops.evolution import antithetic_gradient, unflatten
from rl.types import Update


@register
def evolution(hparams: HParams) -> Any:
    """The antithetic estimate over a population, plus weight decay, clipped, then the optimizer."""
    if "perturbation_std" not in type(hparams).model_fields:
        raise UsageError(
            f"grad_comp evolution compares perturbed parameters, which {hparams.algo} has none of: "
            "take grad_comp=backprop, or an algorithm such as es"
        )
    std: float = hparams.flat()["perturbation_std"]

    def compute(loss_fn: Any, batch: Any, variables: list[Any], optimizer: Any) -> Update:
        # [2 D], of the members that batch.noise [D, n] made
        loss, metrics, priorities = checked_loss(loss_fn(batch), batch.score, hparams.algo)
        estimate = antithetic_gradient(loss, batch.noise, std)  # [n]
        gradients = unflatten(estimate, [tuple(variable.shape) for variable in variables])
        if hparams.weight_decay and hparams.optimizer != "adamw":  # which has its own
            decay = hparams.weight_decay
            gradients = [x + decay * variable for x, variable in zip(gradients, variables, strict=True)]
        optimizer.note_loss(metrics, unfit(metrics))
        metrics |= apply_gradients(gradients, variables, optimizer, hparams.max_grad_norm)
        return Update(metrics, priorities)

    return compute
