"""Gymnasium spaces as JSON, in Minari's form, and the parts of their elements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from rl.errors import UsageError
from rl.spaces import space_leaves, too_large_for_int32
from rl.types import Nest

Path = tuple[str | int, ...]  # of keys of Dicts and places in Tuples, from the outside inwards


def parts(space: spaces.Space, path: Path = ()) -> Iterator[tuple[Path, spaces.Space]]:
    """Yields the leaf spaces of `space`, each with its path.

    Text is left out, as it is for agents (`rl.envs.own`).
    """
    if isinstance(space, spaces.Dict):
        for key, each in space.spaces.items():
            yield from parts(each, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for i, each in enumerate(space.spaces):
            yield from parts(each, (*path, i))
    elif not _is_text(space):
        yield path, space


def part(value: Nest, path: Path) -> Any:
    """Returns what is at `path` in a nest."""
    for key in path:
        value = value[key]
    return value


def nest_of(space: spaces.Space, values: Iterator[Any]) -> Nest:
    """Returns a nest like the elements of `space`, of `values` in the order of `parts`."""
    if isinstance(space, spaces.Dict):
        return {key: nest_of(each, values) for key, each in space.spaces.items() if not _is_text(each)}
    if isinstance(space, spaces.Tuple):
        return tuple(nest_of(each, values) for each in space.spaces if not _is_text(each))
    return next(values)


def map_parts(function: Callable[..., Any], space: spaces.Space, *nests: Nest) -> Nest:
    """Returns the nest of `function(part's space, its value in each of the nests)`."""
    values = (function(each, *(part(nest, path) for nest in nests)) for path, each in parts(space))
    return nest_of(space, values)


def map_space(space: spaces.Space, function: Callable[[spaces.Space], spaces.Space]) -> spaces.Space:
    """Returns `space` with `function` of each of its `parts` in its place; text is left out."""
    if isinstance(space, spaces.Dict):
        pairs = space.spaces.items()
        return spaces.Dict({key: map_space(each, function) for key, each in pairs if not _is_text(each)})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([map_space(each, function) for each in space.spaces if not _is_text(each)])
    return function(space)


def narrow_space(space: spaces.Space) -> spaces.Space:
    """Returns a part's space as agents see it: floats and integers beyond int32 are float32."""
    if isinstance(space, spaces.Box) and (space.dtype.kind == "f" or too_large_for_int32(space)):
        with np.errstate(over="ignore"):  # limits beyond float32 are none
            low, high = space.low.astype(np.float32), space.high.astype(np.float32)
        return spaces.Box(low, high, dtype=np.float32)
    return space


def from_zero(space: spaces.Space) -> spaces.Space:
    """Returns a part's space of actions as agents see it."""
    if isinstance(space, spaces.Discrete):
        return spaces.Discrete(int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return spaces.MultiDiscrete(space.nvec, dtype=space.dtype)
    return narrow_space(space)


def narrow_values(space: spaces.Space, values: np.ndarray) -> np.ndarray:
    """Returns the values of a part's observations in the dtype that agents see."""
    large = isinstance(space, spaces.Box) and too_large_for_int32(space)
    return np.ascontiguousarray(values, np.float32 if large else space_leaves(space)[0][1])


def values_from_zero(space: spaces.Space, values: np.ndarray) -> np.ndarray:
    """Returns the values of a part's actions as agents see them."""
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)) and np.any(space.start):
        values = values - space.start
    return narrow_values(space, values)


def in_range(space: spaces.Space, values: np.ndarray) -> bool:
    """Says whether all categories of a part [N, ...] are within its space. Other parts always pass:
    environments themselves sometimes return observations outside of a Box."""
    if isinstance(space, spaces.Discrete):
        return bool(((values >= space.start) & (values < space.start + space.n)).all())
    if isinstance(space, spaces.MultiDiscrete):
        return bool(((values >= space.start) & (values < space.start + space.nvec)).all())
    return True


def to_dict(space: spaces.Space) -> dict[str, Any]:
    """Returns a space as plain lists, dicts, numbers and texts.

    Raises:
        UsageError: there is no such form of it.
    """
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "subspaces": {key: to_dict(each) for key, each in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "subspaces": [to_dict(each) for each in space.spaces]}
    if isinstance(space, spaces.Box):
        bounds = {"low": space.low.tolist(), "high": space.high.tolist()}
        return {"type": "Box", "dtype": str(space.dtype), "shape": list(space.shape), **bounds}
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "dtype": "int64", "start": int(space.start), "n": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete):
        values = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"type": "MultiDiscrete", "dtype": str(space.dtype), **values}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": np.asarray(space.n).tolist()}
    raise UsageError(
        f"no data set can hold elements of {type(space).__name__}: it takes Box, Discrete, MultiDiscrete, "
        "MultiBinary, and Dict or Tuple of these"
    )


def to_json(space: spaces.Space) -> str:
    """Returns a space as the text that Minari's `metadata.json` has of it. Raises UsageError as `to_dict`."""
    return json.dumps(to_dict(space))


def from_json(text: Any) -> spaces.Space:
    """Returns the space of a text that `to_json`, or Minari, has made.

    Raises:
        ValueError: there is none.
    """
    try:
        return _from_dict(json.loads(text))
    except (AssertionError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"no space of gymnasium: {str(text)[:80]}") from error


def _from_dict(found: dict[str, Any]) -> spaces.Space:
    kind = found["type"]
    if kind == "Dict":
        return spaces.Dict({str(key): _from_dict(each) for key, each in found["subspaces"].items()})
    if kind == "Tuple":
        return spaces.Tuple([_from_dict(each) for each in found["subspaces"]])
    if kind == "Box":
        dtype = np.dtype(found["dtype"])
        if dtype.kind not in "biuf":
            raise ValueError(f"a Box of {dtype}")
        low, high = np.array(found["low"], dtype), np.array(found["high"], dtype)
        return spaces.Box(low, high, tuple(found["shape"]), dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(int(found["n"]), start=int(found.get("start", 0)))
    if kind == "MultiDiscrete":
        start = found.get("start")
        return spaces.MultiDiscrete(found["nvec"], np.dtype(found["dtype"]).type, start=start)
    if kind == "MultiBinary":
        return spaces.MultiBinary(found["n"])
    if kind == "Text":
        lengths = {"min_length": found["min_length"], "charset": found["charset"]}
        return spaces.Text(found["max_length"], **lengths)
    raise ValueError(f"a space of type {kind}")


def _is_text(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Text)
