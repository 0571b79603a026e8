"""Episodes in HDF5 files as Minari lays them out: a group `episode_N` each, of arrays as long as it is.

Files may come from untrusted sources: only arrays of numbers are read, and none that is in another file.
"""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import h5py
import numpy as np
from gymnasium import spaces
from h5py import h5a, h5d, h5f, h5g, h5o, h5p, h5s, h5t

from rl.data.spaces import Path, nest_of, part, parts
from rl.types import Nest

FORMAT = ("v110", "v110")  # of HDF5: groups of a few arrays take a fifth of the room that they took before
PICTURE = 1024  # bytes from which a row of bytes is a picture, and compressed
GROUP = "episode_"
DIGITS = 18  # of an episode's number, at most
COLUMNS = ("rewards", "terminations", "truncations")
LOG_PROB = "infos/log_prob"  # of the actions, by the policy that took them; where it is known
ABOUT = ("policy", "step", "return", "seed")  # attributes that are read


class Episode(NamedTuple):
    """One episode of L steps."""

    observation: Nest  # [L + 1, ...]: the last one is that after the last step
    action: Nest  # [L, ...]
    reward: np.ndarray  # [L]
    terminated: np.ndarray  # [L] bool
    truncated: np.ndarray  # [L] bool
    about: dict[str, Any] = {}  # noqa: RUF012 - what else is known: numbers, of `ABOUT`; never written to
    log_prob: np.ndarray | None = None  # [L] float32, of the actions, by the policy that took them

    @property
    def length(self) -> int:
        """Returns how many steps it has."""
        return len(self.reward)


class Damaged(Exception):
    """An episode, or a file of episodes, does not match its metadata; the text is part of a message."""


def system_error(error: BaseException) -> OSError | None:
    """Returns the operating system's error if it caused a failed read: HDF5 reports it as text, in exceptions
    of various kinds. None for other causes, such as a file that is no HDF5."""
    told = error.errno if isinstance(error, OSError) else None
    found = re.search(r"\berrno = (\d+)", str(error))
    code = told or (int(found[1]) if found else 0)
    return OSError(code, os.strerror(code)) if code else None


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
    known = name.startswith(GROUP) and digits.isdecimal() and len(digits) <= DIGITS
    return int(digits) if known else None


def write_episode(file: h5py.Group, i: int, episode: Episode, observations: Any, actions: Any) -> None:
    """Writes an episode as the group `episode_i`.

    observations, actions: their spaces, in whose dtypes they are written. Rewards are as they are.
    """
    group = h5py.Group(h5g.create(file.id, f"{GROUP}{i}".encode()))
    for name, space, nest in (
        ("observations", observations, episode.observation),
        ("actions", actions, episode.action),
    ):
        for path, each in parts(space):
            _write_array(group, _name(name, path), np.asarray(part(nest, path), each.dtype))
    for name, values in zip(COLUMNS, (episode.reward, episode.terminated, episode.truncated), strict=True):
        _write_array(group, name, values)
    if episode.log_prob is not None:
        _write_array(group, LOG_PROB, np.asarray(episode.log_prob, np.float32))
    counted = {"id": i, "total_steps": episode.length}
    for key, value in (episode.about | counted).items():
        number = np.asarray(value)
        made = h5a.create(group.id, key.encode(), h5t.py_create(number.dtype), h5s.create(h5s.SCALAR))
        made.write(number)


def _write_array(group: h5py.Group, name: str, values: np.ndarray) -> None:
    """Writes an array by h5py's low-level interface: its high-level one takes five times as long, and a data
    set has many episodes of five arrays each."""
    if values.dtype == np.uint8 and values[0].nbytes >= PICTURE:
        group.create_dataset(name, data=values, compression="gzip", compression_opts=1)
        return
    values = np.ascontiguousarray(values)
    kind, space = h5t.py_create(values.dtype, logical=True), h5s.create_simple(values.shape)
    made = h5d.create(group.id, name.encode(), kind, space, _timeless(), _nested())
    made.write(h5s.ALL, h5s.ALL, values)


@functools.cache
def _timeless() -> Any:
    """Properties of arrays that are the same whenever they are written."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_obj_track_times(False)
    return properties


@functools.cache
def _nested() -> Any:
    """Properties of names, of which the groups on the way are made."""
    properties = h5p.create(h5p.LINK_CREATE)
    properties.set_create_intermediate_group(True)
    properties.set_char_encoding(h5t.CSET_UTF8)
    return properties


def read_episode(group: h5py.Group, observations: spaces.Space, actions: spaces.Space, jpeg: bool) -> Episode:
    """Reads an episode.

    jpeg: whether pictures (`is_picture`) are stored as JPEG.

    Raises:
        Damaged: the group is no episode, or does not fit these spaces.
        OSError: the operating system cannot read it.
    """
    try:
        reward = _array(group, COLUMNS[0])
        steps = len(reward)
        terminated, truncated = (_array(group, name, (steps,)) for name in COLUMNS[1:])
        observation = _read_nest(group, "observations", observations, steps + 1, jpeg)
        action = _read_nest(group, "actions", actions, steps, jpeg)
        about = {key: _number(group, key) for key in ABOUT if h5a.exists(group.id, key.encode())}
        log_prob = _array(group, LOG_PROB) if LOG_PROB in group else None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, MemoryError) as error:
        told = system_error(error)
        if told is not None:
            raise told from error
        raise Damaged(" ".join(str(error).split()) or type(error).__name__) from error
    if not steps or reward.shape != (steps,) or reward.dtype.kind not in "iuf":
        raise Damaged(f"rewards are {reward.dtype} {list(reward.shape)}")
    if log_prob is not None and (log_prob.shape != (steps,) or log_prob.dtype.kind != "f"):
        log_prob = None  # something else, by another author
    flags = terminated.astype(bool), truncated.astype(bool)
    return Episode(observation, action, reward, *flags, about, log_prob)


def _read_nest(group: h5py.Group, name: str, space: spaces.Space, rows: int, jpeg: bool) -> Nest:
    def read() -> Iterator[np.ndarray]:
        for path, each in parts(space):
            read_it = _pictures if jpeg and is_picture(each) else _array
            yield read_it(group, _name(name, path), (rows, *each.shape))

    return nest_of(space, read())


def opened(group: h5py.Group, name: str) -> Any:
    """Opens what is an array, and stands in the file of the group. Raises KeyError, ValueError."""
    found = h5o.open(group.id, name.encode())
    if not isinstance(found, h5d.DatasetID):
        raise ValueError(f"{name} is no array")
    properties = found.get_create_plist()
    elsewhere = properties.get_external_count() or properties.get_layout() == h5d.VIRTUAL
    if elsewhere or h5f.get_name(found) != h5f.get_name(group.id):
        raise ValueError(f"{name} stands in another file")
    return found


def _array(group: h5py.Group, name: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Reads an array of numbers, after its shape, if it is known, was compared: a damaged one may be any."""
    found = opened(group, name)
    if found.dtype.kind not in "biuf":
        raise ValueError(f"{name} is {found.dtype}, not numbers")
    if shape is not None and found.shape != shape:
        raise ValueError(f"{name} is {found.dtype} {list(found.shape)}, not {list(shape)}")
    values = np.empty(found.shape, found.dtype)
    found.read(h5s.ALL, h5s.ALL, values)
    return values


def _number(group: h5py.Group, name: str) -> Any:
    """Returns an attribute that is a number. Raises ValueError."""
    found = h5a.open(group.id, name.encode())
    if found.shape != () or found.dtype.kind not in "biuf":
        raise ValueError(f"{name} is no number")
    value = np.empty((), found.dtype)
    found.read(value)
    return value.item()


def _pictures(group: h5py.Group, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Returns the pictures of JPEG files [N, H, W, C], as Minari's reader does, each after its size was
    compared."""
    from PIL import Image

    def picture(content: Any) -> np.ndarray:
        try:
            found = Image.open(io.BytesIO(bytes(content)), formats=["JPEG"])
        except Image.DecompressionBombError as error:
            raise ValueError(f"{name}: {error}") from error
        if found.size != (shape[2], shape[1]):
            raise ValueError(f"{name} has a picture of {found.size}")
        return np.asarray(found)

    files = h5py.Dataset(opened(group, name))
    if files.shape != shape[:1]:
        raise ValueError(f"{name} is {files.dtype} {list(files.shape)}, not {list(shape[:1])}")
    pictures = np.stack([picture(each) for each in files[()]])
    if pictures.shape != shape:
        raise ValueError(f"{name} is of {list(pictures.shape)}, not {list(shape)}")
    return pictures


def _name(name: str, path: Path) -> str:
    return "/".join([name, *(f"_index_{key}" if isinstance(key, int) else key for key in path)])
