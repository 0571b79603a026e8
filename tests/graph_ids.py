"""Ids of in-graph environments by kind, for tests that walk them."""

from __future__ import annotations

from rl.envs.graph.multi_agent import MultiAgentEnv
from rl.envs.registry import get_env, registry

OF_AGENTS = [each for each in registry.names() if issubclass(get_env(each), MultiAgentEnv)]
OF_ONE = [each for each in registry.names() if each not in OF_AGENTS]
