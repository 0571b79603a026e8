"""Large append-only variables, such as the images of a replay memory, written to checkpoints in pieces.

Only the pieces that changed since the last checkpoint are written.

A checkpoint of a million Atari frames is 7 GB, of which a minute of training changes a few hundredths. Pieces
that did not change are hard links to the files of the checkpoint before: every checkpoint is whole by itself,
and removing one leaves the others' data. (A file that a disk spoils is spoilt in all of them.)
"""

from __future__ import annotations

import os
import uuid
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

LARGE = 1 << 28  # bytes from which a variable is written in pieces
PIECE = 1 << 25  # bytes of a piece, at most

Files = dict[str, tuple[int, int]]  # name -> bytes, CRC-32, as in a manifest


def choose_large(variables: Mapping[str, tf.Variable], appended: Mapping[str, int]) -> list[str]:
    """Returns the names of the variables to be written in pieces: large append-only ones."""
    return [name for name in appended if _size(variables[name]) >= LARGE]


def write_pieces(
    folder: Path,
    variable: tf.Variable,
    written: int,
    before: dict[str, Any] | None,
    previous: Path | None,
    known: Mapping[str, tuple[int, int]],
) -> tuple[dict[str, Any], Files]:
    """Writes a variable `[L, ...]` into `folder`, and fsyncs the files (not the folder's list of names).

    Args:
        folder: of the new checkpoint.
        variable: a ring of L rows; row i mod L is the i-th that was ever appended.
        written: rows that were ever appended.
        before: what this function returned for the checkpoint in `previous`, None where there is none.
        previous: folder of the checkpoint before.
        known: name -> (bytes, CRC-32) of the files in `previous`.

    Returns:
        What `read_pieces` needs, for the manifest; and the files.
    """
    rows = max(PIECE // _row_size(variable), 1)
    length = variable.shape[0]
    count = -(-min(written, length) // rows)  # pieces that hold anything
    names: list[str] = []
    files: Files = {}
    for i in range(count):
        name = _unchanged(i, rows, length, written, before)
        if name is None or previous is None or not _link(previous / name, folder / name):
            name = f"piece-{uuid.uuid4().hex}"
            # Gathered: reading or slicing a variable that was ever scattered into copies all of it first.
            data = tf.gather(variable, tf.range(i * rows, min((i + 1) * rows, length)))
            files[name] = _write(folder / name, data.numpy())
        else:
            files[name] = known[name]
        names.append(name)
    return {"rows": rows, "written": int(written), "files": names}, files


def read_pieces(folder: Path, variable: tf.Variable, pieces: Mapping[str, Any]) -> None:
    """Assigns what `write_pieces` wrote; rows that it did not hold become 0.

    Raises:
        ValueError: the pieces do not fit the variable.
        OSError: a file cannot be read.
    """
    rows, length, names = pieces["rows"], variable.shape[0], pieces["files"]
    dtype, rest = variable.dtype.as_numpy_dtype, variable.shape[1:].as_list()
    for i, start in enumerate(range(0, length, rows)):
        stop = min(start + rows, length)
        if i < len(names):
            data = np.fromfile(folder / names[i], dtype).reshape(stop - start, *rest)
        else:
            data = np.zeros((stop - start, *rest), dtype)
        variable.scatter_update(tf.IndexedSlices(data, tf.range(start, stop)))  # in place


def _unchanged(i: int, rows: int, length: int, written: int, before: dict[str, Any] | None) -> str | None:
    """Returns the file of piece i in the checkpoint before, where no row of it has been written since."""
    if before is None or before["rows"] != rows or i >= len(before["files"]):
        return None
    new = written - before["written"]
    if new < 0 or new >= length:
        return None
    first = before["written"] % length  # the rows first, first + 1, ... (mod length) are new
    start, stop = i * rows, min((i + 1) * rows, length)
    offset = (start - first) % length  # of the piece's first row from the first new one
    touched = offset < new or offset + (stop - start) > length
    return None if new and touched else before["files"][i]


def _link(source: Path, target: Path) -> bool:
    try:
        os.link(source, target)
    except OSError:  # gone, or a file system without hard links
        return False
    return True


def _write(path: Path, data: np.ndarray) -> tuple[int, int]:
    content = np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return content.nbytes, zlib.crc32(content)


def _row_size(variable: tf.Variable) -> int:
    return int(np.prod(variable.shape[1:].as_list())) * variable.dtype.size


def _size(variable: tf.Variable) -> int:
    return int(variable.shape[0] * _row_size(variable)) if variable.shape.rank else 0
