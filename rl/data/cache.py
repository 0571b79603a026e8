"""A cache of the columns of data sets with many short episodes, since HDF5 takes a millisecond per group.

`DIR/data/columns.npz` holds the result of `rl.data.dataset.read`, and the names, sizes and times of the files
that were read. If these have changed, or the cache is damaged (a zip file has a CRC-32 for each array) or
cannot be written, the data set is read without it. It contains no code: only numbers and JSON.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rl.data import stored
from rl.data.metadata import CACHE, MAIN
from rl.data.spaces import nest_of, part, parts
from rl.errors import UsageError
from rl.storage.files import load_json, remove_quietly
from rl.types import Nest

FORMAT = 2  # of the cache; a cache of another format is replaced (1 cut large integers to int32)
EPISODES = 1_000  # the least number of episodes for which a cache is worth its space
BYTES = 32_768  # the largest mean size of episodes for which opening takes longer than reading
REFUSED = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)

FIELDS = ("reward", "terminated", "truncated", "lengths")  # of `rl.data.dataset.Dataset`, single arrays
Columns = dict[str, Any]  # these, and its observation, action, log_prob and about


def state(data: Path) -> str:
    """Returns a fingerprint of the files in a folder (names, sizes, times); "" while they change."""
    try:
        files = [
            [each.name, each.stat().st_size, each.stat().st_mtime_ns]
            for each in sorted(os.scandir(data), key=lambda each: each.name)
            if each.is_file() and not each.name.startswith(".") and each.name != CACHE
        ]
    except OSError:
        return ""
    return json.dumps([FORMAT, files])


def load(data: Path, observations: spaces.Space, actions: spaces.Space) -> Columns | None:
    """Returns the cached columns; None if there is no cache, or it is not of the present files.

    observations, actions: the spaces of the columns.
    """
    path = data / CACHE
    try:
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as file:
            now = state(data)
            if not now or bytes(file["state"]).decode() != now:
                return None
            found = {name: file[name] for name in file.files}
        about = load_json(bytes(found["about"]))
        columns = {
            "observation": _nest(found, "observation", observations),
            "action": _nest(found, "action", actions),
            **{field: found[field] for field in FIELDS},
            "log_prob": found.get("log_prob"),
            "about": tuple(dict(each) for each in about),
        }
        _check(columns, observations, actions)
    except REFUSED:
        return None
    return columns


def store(
    data: Path, before: str, columns: Columns, observations: spaces.Space, actions: spaces.Space
) -> None:
    """Caches the columns of all episodes, if these are many and short, and none is damaged or being recorded.

    before: `state` before they were read.
    """
    leaves = {f"observation/{i}": part(columns["observation"], path)
              for i, (path, _) in enumerate(parts(observations))}  # fmt: skip
    leaves |= {f"action/{i}": part(columns["action"], path) for i, (path, _) in enumerate(parts(actions))}
    leaves |= {field: columns[field] for field in FIELDS}
    if columns["log_prob"] is not None:
        leaves["log_prob"] = columns["log_prob"]
    count = len(columns["lengths"])
    if count < EPISODES or sum(each.nbytes for each in leaves.values()) > BYTES * count:
        return
    temporary = data / f".tmp-{CACHE}-{os.getpid()}"
    try:
        if not before or not _is_whole(data, count):
            return
        texts = {"state": before, "about": json.dumps(columns["about"])}
        leaves |= {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
        with open(temporary, "wb") as file:
            np.savez(file, **leaves)
        os.replace(temporary, data / CACHE)
    except (OSError, UsageError):
        return
    finally:
        remove_quietly(temporary)


def _is_whole(data: Path, count: int) -> bool:
    """Says whether so many episodes are all that the folder has, and nobody records there."""
    if not (data / MAIN).exists() or stored.journals(data):
        return False
    with stored.opened(data / MAIN) as main:
        return len(stored.numbers_in(main)) == count


def _nest(found: dict[str, np.ndarray], name: str, space: spaces.Space) -> Nest:
    return nest_of(space, (found[f"{name}/{i}"] for i, _ in enumerate(parts(space))))


def _check(columns: Columns, observations: spaces.Space, actions: spaces.Space) -> None:
    """Raises ValueError where the columns do not fit together."""
    lengths = columns["lengths"]
    if lengths.ndim != 1 or lengths.dtype != np.int64 or not len(lengths) or lengths.min() < 1:
        raise ValueError("lengths")
    count = int(lengths.sum())
    flat = [columns[field] for field in FIELDS[:3]] + [columns["log_prob"]] * (
        columns["log_prob"] is not None
    )
    wrong = any(each.shape != (count,) for each in flat) or len(columns["about"]) != len(lengths)
    for name, space, rows in (
        ("observation", observations, count + len(lengths)),
        ("action", actions, count),
    ):
        for path, each in parts(space):
            values = part(columns[name], path)
            wrong |= values.shape != (rows, *(each.shape or ())) or values.dtype.kind not in "biuf"
    if wrong:
        raise ValueError("shapes")
