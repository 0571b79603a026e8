"""CartPolePixels-v0 for Gymnasium: the in-graph environment itself."""

from __future__ import annotations

import gymnasium

ENV_ID = "CartPolePixels-v0"

gymnasium.register(ENV_ID, entry_point="rl.envs.graph_gym:GraphEnvGym", kwargs={"env_id": ENV_ID})
