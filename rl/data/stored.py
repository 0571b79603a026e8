"""What lies in the folder of a data set: main_data.hdf5, the shards that it links to, journals.

`main_data.hdf5` holds episodes itself, as Minari writes it, or links to shards: files that recordings have
added, a number of episodes each. It says each shard's size and CRC-32.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import h5py
from gymnasium import spaces

from rl.data import hdf5
from rl.data.hdf5 import GROUP, Damaged, Episode
from rl.data.metadata import MAIN
from rl.storage.files import checksum, failure, reason

_log = logging.getLogger("rl.data")
ENTRY = "shards"  # attribute of main_data.hdf5
OPEN = 32  # shards that a reader keeps open: there may be more of them than files that a process may open
_JOURNAL, _SHARD = re.compile(r"journal_\d{6}\.bin"), re.compile(r"shard_\d{6}\.hdf5")


class Shard(NamedTuple):
    """What main_data.hdf5 says of a shard."""

    size: int  # bytes
    crc: int
    episodes: int
    steps: int


def journal_path(data: Path, number: int) -> Path:
    """Returns the file of a journal, of which the shard of that number is made."""
    return data / f"journal_{number:06d}.bin"


def shard_path(data: Path, number: int) -> Path:
    """Returns the file of a shard."""
    return data / f"shard_{number:06d}.hdf5"


def number_of(path: Path) -> int:
    """Returns the number of a journal, or a shard, by its name."""
    return int(path.stem.rpartition("_")[2])


def journals(data: Path) -> list[Path]:
    """Returns the journals in a folder, in their order. Raises OSError."""
    return sorted(data / name for name in os.listdir(data) if _JOURNAL.fullmatch(name))


def shard_files(data: Path) -> list[Path]:
    """Returns the shards in a folder, in their order. Raises OSError."""
    return sorted(data / name for name in os.listdir(data) if _SHARD.fullmatch(name))


def next_number(data: Path) -> int:
    """Returns a number that no journal and no shard has."""
    return max([0, *map(number_of, journals(data)), *map(number_of, shard_files(data))]) + 1


def is_folded(data: Path, number: int) -> bool:
    """Says whether the episodes of a journal are in a shard already. Raises UsageError."""
    return shard_path(data, number).name in listed(data)


def listed(data: Path) -> dict[str, Shard]:
    """Reads what main_data.hdf5 says of its shards, by their names. Raises UsageError where it is damaged."""
    if not (data / MAIN).exists():
        return {}
    with opened(data / MAIN) as file:
        return listed_in(file)


def listed_in(file: h5py.File) -> dict[str, Shard]:
    """Reads what an open main_data.hdf5 says of its shards, by their names."""
    try:
        entries = json.loads(file.attrs.get(ENTRY, "{}"))
        return {str(name): Shard(*map(int, values)) for name, values in entries.items()}
    except (ValueError, TypeError, AttributeError, OSError):
        _log.warning("%s does not say what its shards are: they are not checked", file.filename)
        return {}


def has_episodes(data: Path) -> bool:
    """Says whether a folder may hold episodes: a crash may leave a main_data.hdf5 without any.

    Raises:
        UsageError: main_data.hdf5 cannot be read.
    """
    main = data / MAIN
    if journals(data) or shard_files(data):
        return True
    if not main.exists() or not main.stat().st_size:
        return False
    with opened(main) as file:
        return any(hdf5.number(name) is not None for name in file)


def opened(path: Path) -> h5py.File:
    """Opens an HDF5 file to be read. Raises UsageError."""
    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise failure(f"cannot read {path}: {reason(error)} (python -m rl.data repair)", error) from error


def stored(data: Path, observations: spaces.Space, actions: spaces.Space, jpeg: bool) -> Iterator[Episode]:
    """Yields the episodes of main_data.hdf5; warns, in one line each, of damaged shards and episodes, which
    are left out.

    jpeg: whether pictures are stored as JPEG.

    Raises:
        UsageError: main_data.hdf5 itself cannot be read.
    """
    if not (data / MAIN).exists():
        return
    reader = Reader(data)
    try:
        for i in reader.numbers:
            try:
                group = reader.group(i)
                if group is not None:
                    yield hdf5.read_episode(group, observations, actions, jpeg)
            except (Damaged, KeyError, OSError) as error:
                line = " ".join(str(error).split())
                _log.warning("%s: episode %d is damaged and left out: %s", data / MAIN, i, line)
    finally:
        reader.close()


class Reader:
    """Finds the episodes of main_data.hdf5, in it or in the shards that it links to.

    Raises:
        UsageError: main_data.hdf5 itself cannot be read.
    """

    def __init__(self, data: Path):
        self._data, self._main = data, opened(data / MAIN)
        self._known = listed_in(self._main)
        self._sound: dict[str, bool] = {}  # shards that were looked at
        self._files: dict[str, h5py.File] = {}  # those that are open, the one used last at the end
        self.numbers = sorted(i for i in map(hdf5.number, self._main) if i is not None)

    def group(self, i: int) -> h5py.Group | None:
        """Returns the group of an episode, None where its shard is damaged, of which one line warns.

        Raises:
            Damaged, KeyError, OSError: there is none.
        """
        link = self._main.get(f"{GROUP}{i}", getlink=True)
        if isinstance(link, h5py.HardLink):
            return self._main[f"{GROUP}{i}"]
        if not (isinstance(link, h5py.ExternalLink) and _SHARD.fullmatch(link.filename)):
            raise Damaged("it stands in no shard of this data set")
        if not self._is_sound(link.filename):
            return None
        shard = self._shard(link.filename)
        if not isinstance(shard.get(link.path, getlink=True), h5py.HardLink):
            raise Damaged("it stands in another file")
        return shard[link.path]

    def _is_sound(self, name: str) -> bool:
        if name not in self._sound:
            trouble = trouble_of(self._data / name, self._known.get(name))
            if trouble:
                _log.warning("%s is damaged and left out: %s", self._data / name, trouble)
            self._sound[name] = not trouble
        return self._sound[name]

    def _shard(self, name: str) -> h5py.File:
        """Returns a shard, open; of those before it the last ones stay open."""
        file = self._files.pop(name, None)
        while file is None and len(self._files) >= OPEN:
            self._files.pop(next(iter(self._files))).close()
        self._files[name] = file or h5py.File(self._data / name, "r")
        return self._files[name]

    def length(self, i: int) -> int:
        """Returns the steps of an episode, without reading them; 0 where it is damaged, of which one line
        warns."""
        try:
            group = self.group(i)
            return 0 if group is None else int(group["rewards"].shape[0])
        except (Damaged, KeyError, OSError, AttributeError, IndexError) as error:
            line = " ".join(str(error).split())
            _log.warning("%s: episode %d is damaged and left out: %s", self._data / MAIN, i, line)
            return 0

    def close(self) -> None:
        """Closes the files."""
        for each in self._files.values():
            each.close()
        self._main.close()


def trouble_of(path: Path, shard: Shard | None) -> str:
    """Says what is wrong with a shard; empty where nothing is."""
    try:
        if shard is not None:
            size = path.stat().st_size
            if size != shard.size:
                return f"it has {size} bytes, not {shard.size}"
            if checksum(path) != shard.crc:
                return "its CRC-32 is another one"
        h5py.File(path, "r").close()
    except OSError as error:
        return reason(error)
    return ""
