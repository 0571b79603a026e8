"""Gradient computation: factories of `grad_comp(loss_fn, batch, variables, optimizer) -> Update`."""

from __future__ import annotations

from rl.registry import Registry

registry = Registry("grad_comp", "rl.agents.algos.grad_comp", parameters=("hparams",))
register = registry.register
get_grad_comp = registry.get
