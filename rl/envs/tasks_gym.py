"""Gymnasium's ids of environments of many tasks: the in-graph environments themselves."""

from __future__ import annotations

import gymnasium

for env_id in ("Navigation2D-v0", "PendulumMass-v0"):
    gymnasium.register(env_id, entry_point="rl.envs.graph_gym:GraphEnvGym", kwargs={"env_id": env_id})
