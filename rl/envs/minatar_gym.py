"""MinAtar for Gymnasium where the authors' package `minatar` (GPL-3.0, extra `minatar`) is not installed.

Each id is the in-graph game of `rl/envs/graph/minatar_*.py`. With the package, `register_minatar` registers
the package's own games instead, so that evaluation is on the original.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import gymnasium

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")


def register_minatar() -> None:
    """Registers the package's games, unless they are, or the package is not installed."""
    if "MinAtar/Breakout-v1" not in gymnasium.registry and importlib.util.find_spec("minatar") is not None:
        importlib.import_module("minatar.gym").register_envs()  # the package does not do that by itself
        for name, spec in gymnasium.registry.items():
            if name.startswith("MinAtar/"):
                spec.entry_point = "rl.envs.minatar_gym:seeded"


def seeded(**kwargs: Any) -> gymnasium.Env:
    """Returns a game of the package, in which `reset(seed=...)` begins as in a new one: the package's keeps
    the last action, which may stick in the first frame."""
    base = importlib.import_module("minatar.gym").BaseEnv

    class Seeded(base):  # type: ignore[misc, valid-type]
        def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            if seed is not None:
                self.game.last_action = 0
            return super().reset(seed, options)

    return Seeded(**kwargs)


if importlib.util.find_spec("minatar") is None:
    for game in GAMES:
        env_id = f"MinAtar/{game}-v1"
        gymnasium.register(env_id, entry_point="rl.envs.graph_gym:GraphEnvGym", kwargs={"env_id": env_id})
