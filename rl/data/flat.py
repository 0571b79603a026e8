"""Data sets of other libraries as one file: D4RL's columns in HDF5 or NPZ, RLlib's batches in JSON lines;
d3rlpy's dump (HDF5) is read too.

D4RL (https://github.com/Farama-Foundation/D4RL) has `observations`, `actions`, `rewards`, `terminals`,
`timeouts` and, not always, `next_observations`, episodes one after another. RLlib has a SampleBatch a line:
`obs`, `new_obs`, `actions`, `rewards`, `terminateds` (or `dones`), `truncateds`, `eps_id`. One array of
observations, one of actions.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from gymnasium import spaces

from rl.data import hdf5
from rl.data.dataset import Dataset
from rl.data.hdf5 import Episode
from rl.data.shards import unwritten
from rl.data.spaces import in_range
from rl.data.stored import READ
from rl.errors import UsageError
from rl.storage.files import failure, fsync_path, load_json, reason, remove_quietly

FORMATS = (".hdf5", ".h5", ".npz", ".json", ".jsonl")
_NEEDED = ("observations", "actions", "rewards", "terminals")
_KNOWN = (*_NEEDED, "timeouts", "next_observations")
_RLLIB = {  # RLlib's names for D4RL's columns, the newer one first
    "observations": ("obs",),
    "next_observations": ("new_obs",),
    "actions": ("actions",),
    "rewards": ("rewards",),
    "terminals": ("terminateds", "dones"),
    "timeouts": ("truncateds",),
}
Columns = dict[str, np.ndarray]  # D4RL's names


def kind(path: Path) -> str:
    """Returns how a file's name ends, as `FORMATS` has it."""
    return path.suffix.lower()


def read_flat(
    path: Path, observations: spaces.Space | None = None, actions: spaces.Space | None = None
) -> Dataset:
    """Reads a file of `FORMATS`, or a folder of JSON files; nothing in it is run.

    observations, actions: the spaces; None: guessed from the values.

    Raises:
        UsageError: it is no such file, or its columns do not fit.
    """
    try:
        return _read(path, observations, actions)
    except OSError as error:
        raise failure(f"cannot read {path}: {reason(error)}", error) from error
    except (*READ, EOFError, MemoryError, OverflowError, zlib.error, zipfile.BadZipFile) as error:
        raise UsageError(f"cannot read {path}: {reason(error)}") from error


def _read(path: Path, observations: spaces.Space | None, actions: spaces.Space | None) -> Dataset:
    """As `read_flat`, but for the errors of libraries that read damaged files."""
    if kind(path) in (".hdf5", ".h5"):
        found = _of_hdf5(path)
    elif kind(path) == ".npz":
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in _KNOWN if name in file}
    else:
        found = _of_rllib(path)
    _check(path, found)
    seen = [found[name] for name in ("observations", "next_observations") if name in found]
    observations = _guessed(*seen) if observations is None else observations
    actions = _guessed(found["actions"]) if actions is None else actions
    for name, space in (("observations", observations), ("actions", actions)):
        shape = found[name].shape[1:]
        if space.shape != shape:
            raise UsageError(f"{path}: {name} are {list(shape)}, not of {space}: name another --env")
        found[name] = _cast(path, name, found[name], space)
    listed = list(_episodes(found))
    if not listed:
        raise UsageError(f"{path}: there is no whole episode in it")
    return Dataset.of(listed, observations, actions)


def _cast(path: Path, name: str, values: np.ndarray, space: spaces.Space) -> np.ndarray:
    """Returns a column in the dtype of its space. Raises UsageError where whole numbers are asked for and it
    has others, or ones that the space has not."""
    with np.errstate(invalid="ignore"):
        found = values.astype(space.dtype)
    if space.dtype.kind in "iub" and not np.array_equal(found, values):
        raise UsageError(f"{path}: {name} are not all whole numbers of {space}: name another --env")
    if not in_range(space, found):
        raise UsageError(f"{path}: {name} are not all of {space}: name another --env")
    return found


def _of_hdf5(path: Path) -> Columns:
    with h5py.File(path, "r") as file:
        if "num_episodes" in file:
            return _of_d3rlpy(path, file)
        return {name: _array(path, file, name) for name in _KNOWN if name in file}


def _array(path: Path, file: h5py.File, name: str) -> np.ndarray:
    try:
        values: np.ndarray = h5py.Dataset(hdf5.opened(file, name))[()]
    except (KeyError, ValueError) as error:
        raise UsageError(f"{path}: {name} is no array in this file: it takes D4RL's or d3rlpy's") from error
    return values


def _of_d3rlpy(path: Path, file: h5py.File) -> Columns:
    count = int(_array(path, file, "num_episodes"))
    names = "observations", "actions", "rewards"
    parts = {name: [_array(path, file, f"{name}_{i}") for i in range(count)] for name in names}
    found = {name: np.concatenate(each) for name, each in parts.items()}
    last = np.cumsum([len(each) for each in parts["rewards"]]) - 1
    terminated = np.array([bool(_array(path, file, f"terminated_{i}")) for i in range(count)])
    for name, ends in (("terminals", terminated), ("timeouts", ~terminated)):
        found[name] = np.zeros(len(found["rewards"]), bool)
        found[name][last[ends]] = True
    return found


def _of_rllib(path: Path) -> Columns:
    files = sorted(path.glob("*.json")) + sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    batches: dict[Any, list[Columns]] = {}  # by episode
    for file in files:
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                for key, columns in _batch(f"{file}:{number}", line):
                    batches.setdefault(key, []).append(columns)
    if not batches:
        raise UsageError(f"{path}: there is no SampleBatch in it")
    joined = []
    for parts in batches.values():
        if any(each.keys() != parts[0].keys() for each in parts):
            raise UsageError(f"{path}: its batches have unlike columns")
        columns = {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}
        columns.setdefault("timeouts", np.zeros(len(columns["rewards"]), bool))
        columns["timeouts"][-1] |= not columns["terminals"][-1]  # the next row is another episode's
        joined.append(columns)
    if any(each.keys() != joined[0].keys() for each in joined):
        raise UsageError(f"{path}: its batches have unlike columns")
    return {name: np.concatenate([each[name] for each in joined]) for name in joined[0]}


def _batch(where: str, line: str) -> Iterator[tuple[Any, Columns]]:
    """Yields (episode, its columns) of a line."""
    try:
        batch = load_json(line)
        if not isinstance(batch, dict) or batch.get("type", "SampleBatch") != "SampleBatch":
            raise ValueError("no SampleBatch")
        found = {}
        for name, theirs in _RLLIB.items():
            each = next((batch[key] for key in theirs if key in batch), None)
            if isinstance(each, str):
                raise UsageError(
                    f"{where}: {theirs[0]} is packed: write it by RLlib with output_compress_columns=[]"
                )
            if each is not None:
                found[name] = np.array(each)
        lacking = [_RLLIB[name][0] for name in _NEEDED if name not in found]
        if lacking:
            raise ValueError(f"no {', '.join(lacking)}")
        for name in ("terminals", "timeouts"):
            if name in found:
                found[name] = found[name].astype(bool)
        count = len(found["rewards"])
        episodes = np.array(batch.get("eps_id", [0] * count))
        if any(len(each) != count for each in (*found.values(), episodes)):
            raise ValueError("columns of unlike lengths")
    except (ValueError, TypeError) as error:
        raise UsageError(f"{where}: {error}: it takes RLlib's JSON lines, columns as lists") from error
    if not count:
        return
    starts = np.flatnonzero(np.append(True, episodes[1:] != episodes[:-1]))
    for start, stop in zip(starts, np.append(starts[1:], count), strict=True):
        yield episodes[start].item(), {name: each[start:stop] for name, each in found.items()}


def _check(path: Path, found: Columns) -> None:
    lacking = [name for name in _NEEDED if name not in found]
    if lacking:
        raise UsageError(
            f"{path}: it has no {', '.join(lacking)}: it takes D4RL's columns {', '.join(_KNOWN)}"
        )
    counts = {name: len(each) if each.ndim else None for name, each in found.items()}
    if len(set(counts.values())) > 1 or not found["rewards"].size:
        raise UsageError(f"{path}: its columns have unlike lengths: {counts}")
    for name, each in found.items():
        if each.dtype.kind not in "biuf":
            raise UsageError(f"{path}: {name} are {each.dtype}, not numbers")
    for name in ("rewards", "terminals", "timeouts"):
        if name in found:
            found[name] = found[name].reshape(len(found[name]))
    if found["actions"].shape[1:] == (1,) and found["actions"].dtype.kind in "iu":
        found["actions"] = found["actions"][:, 0]  # as d3rlpy and others have discrete ones
    shapes = {name: found[name].shape for name in ("observations", "next_observations") if name in found}
    if len(set(shapes.values())) > 1:
        raise UsageError(f"{path}: its columns have unlike shapes: {shapes}")


def _guessed(values: np.ndarray, *others: np.ndarray) -> spaces.Space:
    """Returns a space that has these values; of categories also the others, as an episode's last observation
    may be none of the first ones."""
    columns = values, *others
    if values.ndim == 1 and all(each.dtype.kind in "iu" and each.min() >= 0 for each in columns):
        return spaces.Discrete(int(max(each.max() for each in columns)) + 1)
    if values.dtype == np.uint8:
        return spaces.Box(0, 255, values.shape[1:], np.uint8)
    dtype = np.float64 if values.dtype == np.float64 else np.float32
    return spaces.Box(-np.inf, np.inf, values.shape[1:], dtype)


def _episodes(found: Columns) -> Iterator[Episode]:
    """Yields the episodes. They also end where a step's next observation is not the observation of the next
    step (as in the result of D4RL's `qlearning_dataset`, which has no timeouts). If the next observation of
    an episode's last step is missing, a terminal step gets its own observation, which is not learned from,
    and any other step is left out."""
    count = len(found["rewards"])
    terminals = found["terminals"].astype(bool)
    timeouts = found["timeouts"].astype(bool) if "timeouts" in found else np.zeros(count, bool)
    following = found.get("next_observations")
    over = terminals | timeouts
    if following is not None:
        seen = found["observations"]
        dtype = min(seen.dtype, following.dtype, key=lambda each: each.itemsize)  # the one may be rounded
        apart = following[:-1].astype(dtype) != seen[1:].astype(dtype)
        over[:-1] |= apart.any(tuple(range(1, apart.ndim)))
    ends = np.flatnonzero(over)
    if not ends.size or ends[-1] != count - 1:
        ends = np.append(ends, count - 1)
    for start, end in zip(np.append(0, ends[:-1] + 1), ends, strict=True):
        seen, stop = found["observations"][start : end + 1], end + 1
        if following is not None:
            seen = np.concatenate([seen, following[end : end + 1].astype(seen.dtype)])
        elif terminals[end]:
            seen = np.concatenate([seen, seen[-1:]])
        else:
            stop = end
        if stop == start:
            continue
        truncated = timeouts[start:stop].copy()
        truncated[-1] |= not terminals[stop - 1]
        actions, rewards = found["actions"][start:stop], found["rewards"][start:stop]
        yield Episode(seen, actions, rewards, terminals[start:stop], truncated)


def columns_of(dataset: Dataset) -> Columns:
    """Returns the columns of a data set by D4RL's names, including `next_observations`. As in D4RL, a step is
    terminal or a timeout, never both.

    Raises:
        UsageError: its observations or actions are no single arrays.
    """
    for name, space in (("observations", dataset.observation_space), ("actions", dataset.action_space)):
        if isinstance(space, (spaces.Dict, spaces.Tuple)):
            raise UsageError(
                f"such a file holds one array of {name}, this data set has {type(space).__name__}"
            )
    timeouts, last = dataset.truncated.copy(), np.cumsum(dataset.lengths) - 1
    timeouts[last] = True
    timeouts &= ~dataset.terminated
    rows = dataset.places
    return {
        "observations": dataset.observation[rows],
        "actions": dataset.action,
        "rewards": dataset.reward,
        "terminals": dataset.terminated,
        "timeouts": timeouts,
        "next_observations": dataset.observation[rows + 1],
    }


def write_flat(path: Path, dataset: Dataset, start: Any = 0) -> None:
    """Writes a file of `FORMATS`, whole or not at all. Raises UsageError.

    start: what is added to discrete actions (to each, for MultiDiscrete): such files use the environment's
        own numbers.
    """
    columns = columns_of(dataset)
    if np.any(start):
        columns["actions"] = columns["actions"] + start
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind(path) in (".hdf5", ".h5"):
            with h5py.File(temporary, "w") as file:
                for name, each in columns.items():
                    file.create_dataset(name, data=each, compression="gzip")
        elif kind(path) == ".npz":
            with open(temporary, "wb") as file:
                np.savez_compressed(file, **dict[str, Any](columns))
        else:
            with open(temporary, "w", encoding="utf-8") as file:
                file.writelines(_lines(columns, dataset))
        fsync_path(temporary)
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:
        raise unwritten(path, error) from error
    finally:
        remove_quietly(temporary)


def _lines(columns: Columns, dataset: Dataset) -> Iterator[str]:
    """Yields RLlib's lines, one for each episode."""
    for i, (start, length) in enumerate(zip(dataset.starts, dataset.lengths, strict=True)):
        rows = slice(start, start + length)
        batch: dict[str, Any] = {"type": "SampleBatch"}
        batch |= {_RLLIB[name][0]: each[rows].tolist() for name, each in columns.items()}
        batch |= {
            "eps_id": [i] * int(length),
            "t": list(range(int(length))),
            "agent_index": [0] * int(length),
        }
        yield json.dumps(batch) + "\n"
