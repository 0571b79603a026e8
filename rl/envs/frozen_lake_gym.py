"""FrozenLake12x12-v0: Gymnasium's own FrozenLake on a large map whose goal is only just in reach."""

from __future__ import annotations

import gymnasium

# No holes: the goal is 22 steps away, as many as an episode has, so that each has to be right or down.
MAP_12X12 = ("S" + 11 * "F", *(10 * (12 * "F",)), 11 * "F" + "G")
STEPS = 22

gymnasium.register(
    "FrozenLake12x12-v0",
    entry_point="gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv",
    kwargs={"desc": MAP_12X12, "is_slippery": False},
    max_episode_steps=STEPS,
)
