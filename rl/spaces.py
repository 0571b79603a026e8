"""Gymnasium spaces as TensorFlow sees them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf

from rl.errors import UsageError
from rl.types import Nest

# The part of a Dict observation that says which discrete actions are legal.
ACTION_MASK = "action_mask"

# 64-bit numbers of environments are narrowed: nothing here needs them, and accelerators are slow with them.
_NARROW = {"float64": "float32", "int64": "int32"}


def space_spec(space: gymnasium.Space[Any], lead: tuple[int, ...] = ()) -> Nest:
    """The nest of `tf.TensorSpec` of elements of `space`, with leading axes `lead`.

    Dict spaces become dicts, Tuple spaces tuples.

    Raises:
        UsageError: the space has elements without one fixed shape and dtype (Text, Graph, Sequence ...).
    """
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: space_spec(each, lead) for name, each in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(space_spec(each, lead) for each in space.spaces)
    if space.shape is None or space.dtype is None or np.dtype(space.dtype).kind not in "biuf":
        raise UsageError(
            f"no tensor can hold elements of {type(space).__name__}: it takes Box, Discrete, MultiDiscrete, "
            "MultiBinary, or Dict / Tuple of these; wrap the environment"
        )
    dtype = "int32" if isinstance(space, gymnasium.spaces.MultiBinary) else np.dtype(space.dtype).name
    return tf.TensorSpec([*lead, *space.shape], _NARROW.get(dtype, dtype))
