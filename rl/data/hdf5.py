"""Episodes in HDF5 files as Minari lays them out: a group `episode_N` each, of arrays as long as it is.

What is read may be a stranger's: arrays of numbers alone are taken, and none that stands in another file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np
from gymnasium import spaces

from rl.data.spaces import Path, nest_of, part, parts
from rl.storage.files import plain
from rl.types import Nest

FORMAT = ("v110", "v110")  # of HDF5: groups of a few arrays take a fifth of the room that they took before
PICTURE = 1024  # bytes from which a row of bytes is a picture, and compressed
GROUP = "episode_"
FLAGS = ("terminations", "truncations")
_PLAIN = (str, int, float, np.number, np.bool_)  # attributes that are read


class Episode(NamedTuple):
    """One episode of L steps."""

    observation: Nest  # [L + 1, ...]: the last one is that after the last step
    action: Nest  # [L, ...]
    reward: np.ndarray  # [L]
    terminated: np.ndarray  # [L] bool
    truncated: np.ndarray  # [L] bool
    about: dict[str, Any] = {}  # noqa: RUF012 - what else is known, plain numbers and texts; never written to

    @property
    def length(self) -> int:
        """Steps."""
        return len(self.reward)


class Damaged(Exception):
    """An episode, or a file of them, that is not what its metadata say; the text is part of a line."""


def is_picture(space: spaces.Space) -> bool:
    """Says whether Minari takes the elements of a space for pictures, which it stores as JPEG by default."""
    return (
        isinstance(space, spaces.Box)
        and len(space.shape) in (2, 3)
        and min(space.shape[:2]) >= 32
        and space.dtype == np.uint8
        and bool(np.all(space.low == 0) and np.all(space.high == 255))
    )


def number(name: str) -> int | None:
    """Returns N of the name of a group `episode_N`, None for other names."""
    digits = name.removeprefix(GROUP)
    return int(digits) if name.startswith(GROUP) and digits.isdecimal() else None


def write_episode(file: h5py.Group, i: int, episode: Episode, observations: Any, actions: Any) -> None:
    """Writes an episode as the group `episode_i`.

    observations, actions: their spaces, in whose dtypes they are written. Rewards are as they are.
    """
    group = file.create_group(f"{GROUP}{i}")
    for name, space, nest in (
        ("observations", observations, episode.observation),
        ("actions", actions, episode.action),
    ):
        for path, each in parts(space):
            _write_array(group, _name(name, path), np.asarray(part(nest, path), each.dtype))
    group["rewards"] = episode.reward
    for flag, values in zip(FLAGS, (episode.terminated, episode.truncated), strict=True):
        group[flag] = values
    group.attrs["id"], group.attrs["total_steps"] = i, episode.length
    for key, value in episode.about.items():
        if key not in ("id", "total_steps"):
            group.attrs[key] = value


def _write_array(group: h5py.Group, name: str, values: np.ndarray) -> None:
    if values.dtype == np.uint8 and values[0].nbytes >= PICTURE:
        group.create_dataset(name, data=values, compression="gzip", compression_opts=1)
    else:
        group[name] = values


def read_episode(group: h5py.Group, observations: spaces.Space, actions: spaces.Space, jpeg: bool) -> Episode:
    """Reads an episode.

    jpeg: whether pictures (`is_picture`) are stored as JPEG.

    Raises:
        Damaged: it is none, or none of these spaces.
    """
    try:
        reward, terminated, truncated = (_array(group, name) for name in ("rewards", *FLAGS))
        steps = len(reward)
        observation = _read_nest(group, "observations", observations, steps + 1, jpeg)
        action = _read_nest(group, "actions", actions, steps, jpeg)
        about = {key: plain(value) for key, value in group.attrs.items() if isinstance(value, _PLAIN)}
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise Damaged(" ".join(str(error).split())) from error
    shapes = {each.shape for each in (reward, terminated, truncated)}
    if not steps or shapes != {(steps,)} or reward.dtype.kind not in "iuf":
        raise Damaged(f"rewards and flags of shapes {sorted(shapes)}")
    return Episode(observation, action, reward, terminated.astype(bool), truncated.astype(bool), about)


def _read_nest(group: h5py.Group, name: str, space: spaces.Space, rows: int, jpeg: bool) -> Nest:
    def read() -> Iterator[np.ndarray]:
        for path, each in parts(space):
            where = _name(name, path)
            values = _pictures(group[where]) if jpeg and is_picture(each) else _array(group, where)
            if values.shape != (rows, *each.shape) or values.dtype.kind not in "biuf":
                raise ValueError(f"{where} is {values.dtype} {list(values.shape)}, not {[rows, *each.shape]}")
            yield values

    return nest_of(space, read())


def _array(group: h5py.Group, name: str) -> np.ndarray:
    dataset = group[name]
    if not isinstance(dataset, h5py.Dataset) or dataset.external or dataset.is_virtual:
        raise ValueError(f"{name} is no array in this file")
    if dataset.file.filename != group.file.filename:
        raise ValueError(f"{name} stands in another file")
    return dataset[()]


def _pictures(dataset: h5py.Dataset) -> np.ndarray:
    """Returns the pictures of JPEG files [N, H, W, C], as Minari's reader does."""
    from PIL import Image

    return np.stack([np.asarray(Image.open(io.BytesIO(bytes(each)))) for each in dataset[()]])


def _name(name: str, path: Path) -> str:
    return "/".join([name, *(f"_index_{key}" if isinstance(key, int) else key for key in path)])
