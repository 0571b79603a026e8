"""Models: functions that build the torso of a network from `ModelHParams` and the shape of its input."""

from __future__ import annotations

from rl.registry import Registry

registry = Registry("models", "rl.models", parameters=("model", "inputs", "initializers", "name"))
register = registry.register
get_model = registry.get
