"""Gymnasium's id "InterestEvolution-v0": the environment of `rl/envs/graph/interest_evolution.py` itself."""

from __future__ import annotations

import gymnasium

ENV_ID = "InterestEvolution-v0"

gymnasium.register(ENV_ID, entry_point="rl.envs.graph_gym:GraphEnvGym", kwargs={"env_id": ENV_ID})
