"""Algorithms: one class a file, made from the hparams, the spaces and the seed of the run."""

from __future__ import annotations

from rl.registry import Registry

registry = Registry(
    "algos", "rl.agents.algos", parameters=("hparams", "observation_space", "action_space", "seed")
)
register = registry.register
get_algo = registry.get
