"""Gymnasium spaces as TensorFlow sees them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from rl.errors import UsageError
from rl.types import Nest

# The part of a Dict observation that says which discrete actions are legal.
ACTION_MASK = "action_mask"
# The parts of a Dict observation that say what goal is reached, and which one should be.
ACHIEVED_GOAL, DESIRED_GOAL = "achieved_goal", "desired_goal"

# 64-bit numbers of environments are narrowed: nothing here needs them, and accelerators are slow with them.
_NARROW = {"float64": "float32", "int64": "int32"}


def check_action_space(hparams: Any, kinds: tuple[type, ...], action_space: gymnasium.Space[Any]) -> None:
    """Raises UsageError unless the action space is of one of the kinds that the algorithm acts in, and has
    something to choose."""
    if not isinstance(action_space, kinds):
        fits = " or ".join(each.__name__ for each in kinds)
        many = " of many agents together" if hparams.view == "joint" else ""
        raise UsageError(
            f"{hparams.algo} acts in {fits} action spaces{many}, {hparams.env} has {action_space}: "
            "choose another environment or another algorithm (--list algos)"
        )
    if any(0 in shape for shape, _ in space_leaves(action_space)):
        raise UsageError(f"actions {action_space} of {hparams.env}: there is nothing to choose in them")


def too_large_for_int32(space: gymnasium.spaces.Box) -> bool:
    """Says whether a Box has 64-bit integers that int32, to which they are narrowed, has no room for: times
    in milliseconds, say. Agents see these as float32."""
    if space.dtype.kind not in "iu" or space.dtype.itemsize < 8:
        return False
    return max(-int(space.low.min(initial=0)), int(space.high.max(initial=0))) >= 2**31


def space_leaves(space: gymnasium.Space[Any]) -> list[tuple[tuple[int, ...], str]]:
    """Returns (shape, dtype) of the arrays that an element of `space` is made of, in the order of
    `space_spec`.

    Raises:
        UsageError: the space has elements without one fixed shape and dtype (Text, Graph, Sequence ...).
    """
    if isinstance(space, gymnasium.spaces.Dict):
        return [leaf for _, each in sorted(space.spaces.items()) for leaf in space_leaves(each)]
    if isinstance(space, gymnasium.spaces.Tuple):
        return [leaf for each in space.spaces for leaf in space_leaves(each)]
    if space.shape is None or space.dtype is None or np.dtype(space.dtype).kind not in "biuf":
        raise UsageError(
            f"no tensor can hold elements of {type(space).__name__}: it takes Box, Discrete, MultiDiscrete, "
            "MultiBinary, or Dict / Tuple of these; wrap the environment"
        )
    dtype = "int32" if isinstance(space, gymnasium.spaces.MultiBinary) else np.dtype(space.dtype).name
    return [(space.shape, _NARROW.get(dtype, dtype))]


def space_structure(space: gymnasium.Space[Any]) -> Nest:
    """Returns a nest like the elements of `space`, with 0 for each array."""
    if isinstance(space, gymnasium.spaces.Dict):
        return {name: space_structure(each) for name, each in space.spaces.items()}
    if isinstance(space, gymnasium.spaces.Tuple):
        return tuple(space_structure(each) for each in space.spaces)
    return 0


def space_spec(space: gymnasium.Space[Any], lead: tuple[int, ...] = ()) -> Nest:
    """Returns the nest of `tf.TensorSpec` of elements of `space`, with leading axes `lead`.

    Dict spaces become dicts, Tuple spaces tuples.

    Raises:
        UsageError: as `space_leaves`.
    """
    import tensorflow as tf  # workers that act without TensorFlow read this module too

    specs = [tf.TensorSpec([*lead, *shape], dtype) for shape, dtype in space_leaves(space)]
    return tf.nest.pack_sequence_as(space_structure(space), specs)


def channels_first(shape: tuple[int, ...]) -> bool:
    """Returns whether images of that shape are [C, H, W], as stacks of Gymnasium's `FrameStackObservation`
    are: the last two numbers are 8 or more, and at least twice the first one."""
    return max(2 * shape[0], 8) <= min(shape[1:])
