"""The files in a data set's folder: main_data.hdf5, the shards that it links to, and journals.

`main_data.hdf5` contains episodes itself, as Minari writes it, or links to shards: files of several episodes
that recordings have added. It records each shard's size and CRC-32.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import h5py
from gymnasium import spaces

from rl.data import hdf5, journal
from rl.data.hdf5 import GROUP, Damaged, Episode
from rl.data.metadata import CACHE, MAIN, METADATA
from rl.data.rows import Whole
from rl.errors import UsageError
from rl.storage.files import MISSING, checksum, failure, load_json, patiently, reason

_log = logging.getLogger("rl.data")
ENTRY = "shards"  # attribute of main_data.hdf5
OPEN = 32  # shards that a reader keeps open: there may be more of them than files that a process may open
# h5py's errors for files that are damaged or cannot be read.
READ = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError)
_DAMAGE = {*MISSING, errno.EINVAL}  # the latter of places in a file that cannot be
T = TypeVar("T")
_JOURNAL, _SHARD = re.compile(r"journal_\d{6}\.bin"), re.compile(r"shard_\d{6}\.hdf5")


class Shard(NamedTuple):
    """The entry of a shard in main_data.hdf5."""

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


def other_files(data: Path) -> list[str]:
    """Returns the names in a folder that nothing here gives to files of a data set. Raises OSError."""
    own = MAIN, METADATA, CACHE

    def is_own(name: str) -> bool:
        known = name in own or _JOURNAL.fullmatch(name) or _SHARD.fullmatch(name)
        return bool(known or name.startswith((".tmp-", f"{MAIN}.old")))

    return sorted(name for name in os.listdir(data) if not is_own(name))


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
    """Reads what an open main_data.hdf5 says of its shards, by their names. Raises UsageError where it cannot
    be read."""
    try:
        # `get` takes an attribute that cannot be read for one that is not there.
        there = reading(file.filename, lambda: ENTRY in file.attrs)
        text = reading(file.filename, lambda: file.attrs[ENTRY]) if there else "{}"
        return {str(name): Shard(*map(int, values)) for name, values in load_json(text).items()}
    except (Damaged, ValueError, TypeError, AttributeError):
        _log.warning("%s does not say what its shards are: they are not checked", file.filename)
        return {}


def numbers_in(file: h5py.File) -> list[int]:
    """Returns the numbers of the episodes in an open file, in their order. Raises UsageError."""
    try:
        names = reading(file.filename, lambda: list(file))
    except Damaged as error:
        raise UsageError(f"cannot read {file.filename}: {error} (python -m rl.data repair)") from error
    return sorted(i for i in map(hdf5.number, names) if i is not None)


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
        return bool(numbers_in(file))


def opened(path: Path) -> h5py.File:
    """Opens an HDF5 file to be read. Raises UsageError (Unavailable where that may pass)."""
    try:
        return patiently(lambda: h5py.File(path, "r"))
    except OSError as error:
        raise failure(f"cannot read {path}: {reason(error)} (python -m rl.data repair)", error) from error


def reading(path: str | os.PathLike[str], call: Callable[[], T]) -> T:
    """Calls a function that reads an HDF5 file, and again after a temporary failure.

    Returns:
        The function's result.

    Raises:
        Damaged: the file is missing or has wrong contents. No other error counts as damage, since damaged
            files are left out, and that may lose all episodes.
        UsageError: it cannot be read (Unavailable if that may be temporary).
    """

    def attempt() -> T:
        try:
            return call()
        except READ as error:
            told = hdf5.system_error(error)
            if told is None or told.errno in _DAMAGE:
                raise Damaged(reason(told or error)) from error
            told.filename = os.fspath(path)  # which the line of each try names
            raise told from error

    return patiently(attempt, f"cannot read {path}")


def stored(
    data: Path, observations: spaces.Space, actions: spaces.Space, jpeg: bool
) -> Iterator[Episode | Whole]:
    """Yields the episodes of main_data.hdf5, then those of journals that are not shards yet; leaves out
    damaged shards and episodes, with one warning each.

    jpeg: whether pictures are stored as JPEG.

    Raises:
        UsageError: main_data.hdf5 itself, or what is not damaged, cannot be read.
    """
    with contextlib.ExitStack() as files:
        # Open journals first: one that becomes a shard in the meantime may be in main_data.hdf5 too, which
        # then tells. An open journal can still be read after it was removed.
        running = [(path, files.enter_context(file)) for path, file in _opened_journals(data)]
        known: dict[str, Shard] = {}
        if (data / MAIN).exists():
            reader = files.enter_context(contextlib.closing(Reader(data)))
            known = reader.known
            yield from reader.episodes(observations, actions, jpeg)
        for path, file in running:
            if shard_path(data, number_of(path)).name not in known:
                yield from journal.episodes(path, opened=file)


def _opened_journals(data: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Yields the journals of a folder, open; those that are gone are shards. Raises UsageError."""
    for path in patiently(lambda: journals(data), f"cannot read {data}"):
        try:
            file = patiently(partial(_bytes_of, path))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise failure(f"cannot read {path}: {reason(error)}", error) from error
        yield path, file


def _bytes_of(path: Path) -> BinaryIO:
    return open(path, "rb")


class Reader:
    """Reads the episodes of main_data.hdf5, from it or from the shards that it links to.

    Raises:
        UsageError: main_data.hdf5 itself cannot be read.
    """

    def __init__(self, data: Path):
        self._data, self._main = data, opened(data / MAIN)
        self.known = listed_in(self._main)
        self._sound: dict[str, bool] = {}  # shards that were looked at
        self._files: dict[str, h5py.File] = {}  # those that are open, the one used last at the end
        self.numbers = numbers_in(self._main)

    def episodes(self, observations: spaces.Space, actions: spaces.Space, jpeg: bool) -> Iterator[Episode]:
        """Yields the episodes; warns of what is damaged, which is left out. Raises as `episode`."""
        for i in self.numbers:
            try:
                found = self.episode(i, observations, actions, jpeg)
            except Damaged as error:
                _log.warning("%s: episode %d is damaged and left out: %s", self._data / MAIN, i, error)
                continue
            if found is not None:
                yield found

    def episode(
        self, i: int, observations: spaces.Space, actions: spaces.Space, jpeg: bool
    ) -> Episode | None:
        """Reads an episode; None where its shard is damaged, of which one line warns.

        Raises:
            Damaged: it is.
            UsageError: it cannot be read (Unavailable where that may pass).
        """
        return self._of(i, lambda group: hdf5.read_episode(group, observations, actions, jpeg))

    def length(self, i: int) -> int:
        """Returns the steps of an episode, without reading them; 0 where it is damaged, of which one line
        warns. Raises UsageError as `episode`."""
        try:
            return self._of(i, lambda group: int(group["rewards"].shape[0])) or 0
        except Damaged as error:
            _log.warning("%s: episode %d is damaged and left out: %s", self._data / MAIN, i, error)
            return 0

    def _of(self, i: int, use: Callable[[h5py.Group], T]) -> T | None:
        name, place = reading(self._data / MAIN, lambda: self._place(i))
        if name and not self._is_sound(name):
            return None

        def used() -> T:
            try:
                return use(self._group(name, place))
            except READ:  # a file that was opened before the failure may be of no more use
                self._close_shards()
                raise

        return reading(self._data / (name or MAIN), used)

    def _place(self, i: int) -> tuple[str, str]:
        """Returns the shard of an episode, empty for main_data.hdf5, and its place there. Raises Damaged."""
        link = self._main.get(f"{GROUP}{i}", getlink=True)
        if isinstance(link, h5py.HardLink):
            return "", f"{GROUP}{i}"
        if not (isinstance(link, h5py.ExternalLink) and _SHARD.fullmatch(link.filename)):
            raise Damaged("it stands in no shard of this data set")
        return link.filename, link.path

    def _group(self, name: str, place: str) -> h5py.Group:
        if not name:
            return self._main[place]
        shard = self._shard(name)
        if not isinstance(shard.get(place, getlink=True), h5py.HardLink):
            raise Damaged("it stands in another file")
        return shard[place]

    def _is_sound(self, name: str) -> bool:
        if name not in self._sound:
            trouble = trouble_of(self._data / name, self.known.get(name))
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

    def close(self) -> None:
        """Closes the files."""
        self._close_shards()
        self._main.close()

    def _close_shards(self) -> None:
        while self._files:
            self._files.popitem()[1].close()


def trouble_of(path: Path, shard: Shard | None) -> str:
    """Describes what is wrong with a shard; empty if it is intact.

    Raises:
        UsageError: it cannot be read (Unavailable if that may be temporary), so its contents are unknown.
    """

    def look() -> None:
        if shard is not None:
            size = path.stat().st_size
            if size != shard.size:
                raise Damaged(f"it has {size} bytes, not {shard.size}")
            if checksum(path) != shard.crc:
                raise Damaged("its CRC-32 is another one")
        h5py.File(path, "r").close()

    try:
        reading(path, look)
    except Damaged as error:
        return str(error)
    return ""
