"""Environments: in-graph ones (`rl/envs/graph`), host adapters, and the functions that make them.

    from rl.envs import make_env, make_eval_envs, make_gym_env

Importing this package imports neither TensorFlow nor Gymnasium; using one of those functions does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl.envs.make import make_env, make_eval_envs, make_gym_env
    from rl.envs.rewards import get_reward_augmentation

__all__ = ["get_reward_augmentation", "make_env", "make_eval_envs", "make_gym_env"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(
        "rl.envs.rewards" if name == "get_reward_augmentation" else "rl.envs.make"
    )
    return getattr(module, name)
