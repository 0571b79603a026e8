"""Gradients estimated from the losses of perturbed parameters: nothing is differentiated."""

from __future__ import annotations

from typing import Any

from rl.agents.algos.grad_comp.backprop import apply_gradients
from rl.agents.algos.grad_comp.registry import register
from rl.errors import UsageError
from rl.ops.evolution import antithetic_gradient, unflatten
from rl.types import Update


@register
def evolution(hparams: Any) -> Any:
    """The antithetic estimate over a population, plus weight decay, clipped, then the optimizer."""
    if not hasattr(hparams, "perturbation_std"):
        raise UsageError(
            f"grad_comp evolution compares perturbed parameters, which {hparams.algo} has none of: "
            "take grad_comp=backprop, or an algorithm such as es"
        )

    def compute(loss_fn: Any, batch: Any, variables: list[Any], optimizer: Any) -> Update:
        loss, metrics, priorities = loss_fn(batch)  # [2 D], of the members that batch.noise [D, n] made
        estimate = antithetic_gradient(loss, batch.noise, hparams.perturbation_std)  # [n]
        gradients = unflatten(estimate, [tuple(variable.shape) for variable in variables])
        if hparams.weight_decay and hparams.optimizer != "adamw":  # which has its own
            decay = hparams.weight_decay
            gradients = [x + decay * variable for x, variable in zip(gradients, variables, strict=True)]
        metrics |= apply_gradients(gradients, variables, optimizer, hparams.max_grad_norm)
        return Update(metrics, priorities)

    return compute
