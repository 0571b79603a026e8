"""What a memory must know before the first transition: spaces, number of environments, rollout length."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import tensorflow as tf

from rl.errors import UsageError
from rl.types import Nest


class MemorySpec(NamedTuple):
    """The single (unbatched) spaces, and the shape `[T, B]` of the trajectories that will be added."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    num_envs: int  # B
    rollout_length: int  # T


def space_spec(space: gymnasium.Space[Any]) -> Nest:
    """The nest of `tf.TensorSpec` of one element of `space`: Dict becomes dict, Tuple becomes tuple.

    Raises:
        UsageError: the space has elements without one fixed shape and dtype (Text, Graph, Sequence ...).
    """
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: space_spec(each) for name, each in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(space_spec(each) for each in space.spaces)
    if space.shape is None or space.dtype is None or np.dtype(space.dtype).kind not in "biuf":
        raise UsageError(
            f"a replay memory cannot hold elements of {type(space).__name__}: it needs Box, Discrete, "
            "MultiDiscrete, MultiBinary, or Dict / Tuple of these; wrap the environment"
        )
    return tf.TensorSpec(space.shape, tf.as_dtype(space.dtype))


def leaf_names(root: str, spec: Nest) -> list[str]:
    """One name per tensor of the nest, in `tf.nest` order: `root`, or `root/key/0` where it is nested."""
    if isinstance(spec, dict):
        return [name for key in sorted(spec) for name in leaf_names(f"{root}/{key}", spec[key])]
    if isinstance(spec, tuple):
        return [name for i, each in enumerate(spec) for name in leaf_names(f"{root}/{i}", each)]
    return [root]
