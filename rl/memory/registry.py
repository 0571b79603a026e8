"""Memories: classes made from a `MemorySpec` (spaces, num_envs, rollout_length) and the hparams."""

from __future__ import annotations

from rl.memory.contract import Memory
from rl.registry import Registry

registry = Registry("memory", "rl.memory", parameters=("spec", "hparams"), contract=Memory)
register = registry.register
get_memory = registry.get
