"""A journal: a file to which steps are appended as they are played; a crash loses at most the last record.

A record is `kind, length, CRC-32` and that many bytes: JSON, then the arrays that it lists. The first record
identifies the writer. The kernel releases the lock on the file when its writer dies.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from rl.data.rows import Assembler, Piece, Rows, Whole
from rl.storage.files import failure, load_json, lock, patiently, reason

_log = logging.getLogger("rl.data")
_START = struct.Struct("<4sQI")  # kind, bytes that follow, their CRC-32
# What the contents of a record that nobody here wrote come to.
_WRONG = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
HEAD, ROWS, RUNNING = b"HEAD", b"ROWS", b"OPEN"


class Record(NamedTuple):
    """One appended record."""

    kind: bytes
    about: dict[str, Any]
    arrays: list[np.ndarray]
    end: int  # byte of the file after it


class Journal:
    """A journal that is open for writing, locked against other writers.

    Args:
        path: the file.
        size: bytes to keep of an existing file; None: the file is new, and must not exist.

    Raises:
        UsageError: it cannot be opened (Unavailable where that may pass).
    """

    def __init__(self, path: Path, size: int | None = None):
        self.path = path
        flags = os.O_WRONLY | (os.O_CREAT | os.O_EXCL if size is None else 0)
        self._file = patiently(lambda: os.open(path, flags, 0o666), f"cannot write {path}")
        patiently(lambda: lock(self._file), f"cannot lock {path}")
        self.size = size or 0
        self._truncate()

    def append(self, kind: bytes, about: dict[str, Any], arrays: Sequence[np.ndarray] = ()) -> None:
        """Appends a record, whole or not at all. Raises UsageError, Unavailable for a full disk."""
        listed = [[each.dtype.str, list(each.shape)] for each in arrays]
        text = json.dumps({**about, "arrays": listed}).encode()
        parts = [
            struct.pack("<I", len(text)),
            text,
            *(np.ascontiguousarray(each).tobytes() for each in arrays),
        ]
        payload = b"".join(parts)
        record = _START.pack(kind, len(payload), zlib.crc32(payload)) + payload

        def write() -> None:
            try:
                os.lseek(self._file, self.size, os.SEEK_SET)
                rest = memoryview(record)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            except OSError:
                self._truncate()
                raise

        patiently(write, f"cannot write {self.path}")
        self.size += len(record)

    def append_rows(self, rows: Rows) -> None:
        """Appends rows. Raises as `append`."""
        known = {"step": rows.step, "fresh": rows.fresh, "agents": rows.agents}
        counts = {"observations": len(rows.observation), **known}
        flags = rows.reward, rows.terminated, rows.truncated, rows.mask
        self.append(ROWS, counts, [*rows.observation, *rows.action, *flags])

    def append_running(self, assembler: Assembler) -> None:
        """Appends the running episodes of a journal before this one. Raises as `append`."""
        arrays, lengths = [], []
        for pieces in assembler.running:
            lengths.append(-1 if pieces is None else len(pieces))
            for piece in pieces or ():
                arrays += [*piece.observation, *piece.action, piece.reward]
                counts = [len(piece.observation), len(piece.action)]
        about = {"step": assembler.step, "pieces": lengths, "counts": counts if arrays else [0, 0]}
        self.append(RUNNING, about, arrays)

    def sync(self) -> None:
        """Makes what was appended durable. Raises as `append`."""
        patiently(lambda: os.fsync(self._file), f"cannot write {self.path}")

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._file)

    def cut(self, size: int) -> None:
        """Leaves `size` bytes. Raises as `append`."""
        self.size = size
        patiently(self._truncate, f"cannot write {self.path}")

    def _truncate(self) -> None:
        os.ftruncate(self._file, self.size)


def records(path: Path, opened: BinaryIO | None = None) -> Iterator[Record]:
    """Yields the records of a journal; leaves out damaged parts with a one-line warning.

    opened: the open file, which is closed at the end; None: opens `path`.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with opened or open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            while (begins := file.tell()) < size:
                start = file.read(_START.size)
                if len(start) < _START.size:
                    return _damaged(path, begins, size)
                kind, length, crc = _START.unpack(start)
                if kind not in (HEAD, ROWS, RUNNING) or length > size - file.tell():
                    return _damaged(path, begins, size)
                payload = file.read(length)
                found = _parsed(payload) if zlib.crc32(payload) == crc else None
                if found is None:
                    _damaged(path, begins, file.tell())
                else:
                    yield Record(kind, *found, file.tell())
    except OSError as error:
        raise failure(f"cannot read {path}: {reason(error)}", error) from error


def _damaged(path: Path, begins: int, ends: int) -> None:
    _log.warning("%s is damaged: its bytes %d to %d are left out", path, begins, ends)


def _parsed(payload: bytes) -> tuple[dict[str, Any], list[np.ndarray]] | None:
    """Returns a record's JSON and arrays; None where they are none."""
    try:
        (length,) = struct.unpack_from("<I", payload)
        about = load_json(payload[4 : 4 + length])
        arrays, place = [], 4 + length
        for text, shape in about.pop("arrays"):
            dtype = np.dtype(text)
            if dtype.kind not in "biuf":
                return None
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(payload, dtype, count, place).reshape(shape))
            place += count * dtype.itemsize
    except (struct.error, *_WRONG):
        return None
    return about, arrays


def head(path: Path) -> dict[str, Any]:
    """Reads the first record of a journal, which identifies its writer; empty if it is missing. Raises
    UsageError."""
    first = next(records(path), None)
    return first.about if first is not None and first.kind == HEAD else {}


def is_open(path: Path) -> bool:
    """Says whether a living process writes to a journal. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def until(path: Path, step: int) -> int | None:
    """Returns the size of a journal's part up to `step` environment steps, in bytes; None where it begins
    later.

    Raises:
        UsageError: it cannot be read.
    """
    size = None
    for record in records(path):
        try:
            if record.kind == ROWS and _rows(record).after > step:
                break
            if record.kind == RUNNING and record.about["step"] > step:
                return None
        except _WRONG:
            continue  # readers leave it out
        size = record.end
    return size


def episodes(
    path: Path, assembler: Assembler | None = None, opened: BinaryIO | None = None
) -> Iterator[Whole]:
    """Yields the whole episodes of a journal.

    assembler: contains the episodes that were running at the journal's end, afterwards.
    opened: as of `records`.
    """
    assembler = Assembler() if assembler is None else assembler
    for record in records(path, opened):
        found: list[Whole] = []
        try:
            if record.kind == RUNNING:
                assembler.step, assembler.running = record.about["step"], _running(record)
            elif record.kind == ROWS:
                found = assembler.add(_rows(record))
        except _WRONG:
            _log.warning("%s is damaged: its record up to byte %d is left out", path, record.end)
            assembler.step, assembler.running = None, []  # what was under way lacks that
        yield from found


def _rows(record: Record) -> Rows:
    about, arrays = record.about, record.arrays
    count = about["observations"]
    columns = arrays[:count], arrays[count:-4]
    reward, terminated, truncated, mask = arrays[-4:]
    ends = about["fresh"], about.get("agents", 1)
    return Rows(about["step"], *columns, reward, terminated, truncated, mask, *ends)


def _running(record: Record) -> list[list[Piece] | None]:
    seen, acted = record.about["counts"]
    arrays = iter(record.arrays)

    def piece() -> Piece:
        observation = [next(arrays) for _ in range(seen)]
        return Piece(observation, [next(arrays) for _ in range(acted)], next(arrays))

    return [None if count < 0 else [piece() for _ in range(count)] for count in record.about["pieces"]]
