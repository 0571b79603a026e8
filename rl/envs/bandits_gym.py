"""Gymnasium's ids of bandits: the in-graph environments themselves."""

from __future__ import annotations

import gymnasium

for env_id in ("LinearBandit-v0", "ClassificationBandit-v0", "WheelBandit-v0", "BernoulliBandits-v0"):
    gymnasium.register(env_id, entry_point="rl.envs.graph_gym:GraphEnvGym", kwargs={"env_id": env_id})
