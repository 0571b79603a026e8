"""Gradient computation: factories of `grad_comp(loss_fn, batch, variables, optimizer) -> Update`.

An algorithm that refuses steps (PPO's `target_kl`) also gives `unless=`, a function of the loss's metrics.
"""

from __future__ import annotations

from rl.registry import Registry

registry = Registry("grad_comp", "rl.agents.algos.grad_comp", parameters=("hparams",))
register = registry.register
get_grad_comp = registry.get
