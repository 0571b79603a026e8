"""In-graph environments: `GraphEnv` classes, registered by the Gymnasium id in their `ENV_ID`."""

from __future__ import annotations

from rl.registry import Registry

PETTINGZOO = "pettingzoo:"  # what ids of PettingZoo's environments begin with, which are not registered here

registry = Registry("envs", "rl.envs", parameters=("num_envs",), name_constant="ENV_ID")
register = registry.register
get_env = registry.get
