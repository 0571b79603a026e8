"""Action selection: factories of `act_select(policy_output, seed, step, training) -> action, log_prob`."""

from __future__ import annotations

from rl.registry import Registry

registry = Registry("act_select", "rl.agents.algos.act_select", parameters=("hparams",))
register = registry.register
get_act_select = registry.get
