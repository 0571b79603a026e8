"""Ids of in-graph environments by kind, for tests that walk them."""

from __future__ import annotations

from rl.envs.graph.multi_agent import MultiAgentEnv
from rl.envs.registry import get_env, registry

OF_AGENTS = [each for each in registry.names() if issubclass(get_env(each), MultiAgentEnv)]
OF_ONE = [each for each in registry.names() if each not in OF_AGENTS]
# Those that tests/envs/test_graph_physics.py holds to Gymnasium's; others have files of their own there.
WITH_ORIGINALS = [
    each
    for each in OF_ONE
    if not each.startswith(
        (
            *("MinAtar/", "FrozenLake", "InterestEvolution", "LinearBandit", "ClassificationBandit"),
            *("WheelBandit", "BernoulliBandits", "Navigation2D", "PendulumMass", "CartPolePixels"),
            "BitFlip",
        )
    )
]
