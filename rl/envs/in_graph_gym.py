"""Gymnasium's ids of environments that it steps in-graph, as they are."""

from __future__ import annotations

import gymnasium

for env_id in (
    "LinearBandit-v0",
    "ClassificationBandit-v0",
    "WheelBandit-v0",
    "BernoulliBandits-v0",
    "CartPolePixels-v0",
    "InterestEvolution-v0",
    "Navigation2D-v0",
    "PendulumMass-v0",
):
    gymnasium.register(env_id, entry_point="rl.envs.graph_gym:GraphEnvGym", kwargs={"env_id": env_id})
