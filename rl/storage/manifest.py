"""The manifest of a checkpoint: `manifest.json`, which has a checksum of its own."""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rl.errors import Unavailable, UsageError
from rl.storage.files import MISSING, OLD, checksum, failure, load_json, patiently, read_text, reason

FORMAT = 2  # the newest that can be read; 1 has no pieces
MANIFEST = "manifest.json"
STEP = re.compile(r"step_(\d{12,})")  # name of a numbered checkpoint's folder
BEST = "best"  # name of the folder of the policy with the best evaluation
_SHOWN = 4  # differing variables that an error message names
Signature = dict[str, tuple[tuple[int, ...], str]]  # name of a variable -> shape, dtype
T = TypeVar("T")


class Manifest(NamedTuple):
    """The contents of a checkpoint's manifest."""

    step: int
    meta: dict[str, Any]
    variables: Signature  # of what it holds
    prefix: str  # of the tf.train.Checkpoint's files
    files: dict[str, tuple[int, int]]  # name -> bytes, CRC-32
    pieces: dict[str, dict[str, Any]]  # name of a large variable -> what `read_pieces` takes


class Damaged(Exception):
    """A checkpoint is damaged; the text says why."""


def load_manifest(path: Path) -> Manifest:
    """Reads the manifest of a checkpoint folder. Raises Damaged; UsageError for a newer format, or where it
    is there and cannot be read."""
    try:
        if not patiently((path / MANIFEST).is_file):  # a device would never end
            raise Damaged(f"{MANIFEST} is not there")
        body = load_json(read_text(path / MANIFEST))
        expected = body.pop("checksum")
        if body_checksum(body) != expected:
            raise Damaged(f"the checksum of {MANIFEST} is wrong")
        if body["format"] > FORMAT:
            raise UsageError(
                f"checkpoint {path} was written by a newer version of this program: use that one"
            )
        return _checked(body)
    except OSError as error:
        raise unread(path / MANIFEST, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Damaged(f"{MANIFEST} is unreadable") from error


def _checked(body: dict[str, Any]) -> Manifest:
    """Returns the contents of a manifest. Raises Damaged, or what a wrong type comes to."""
    pieces = {
        name: {**each, "rows": int(each["rows"]), "written": int(each["written"]), "files": [*each["files"]]}
        for name, each in body.get("pieces", {}).items()
    }
    in_pieces = [name for each in pieces.values() for name in each["files"]]
    for name in (body["prefix"], *body["files"], *in_pieces):
        if os.path.basename(name) != name or name in ("", ".", ".."):
            raise Damaged(f"{name!r} is not the name of a file in it")
    return Manifest(
        int(body["step"]),
        dict(body["meta"]),
        {name: (tuple(map(int, shape)), str(dtype)) for name, (shape, dtype) in body["variables"].items()},
        body["prefix"],
        {name: (int(size), int(crc)) for name, (size, crc) in body["files"].items()},
        pieces,
    )


def single(path: Path, read: Callable[[Path], T]) -> T | None:
    """Returns what a function reads of a checkpoint that is replaced under its name, such as `best`; None
    where there is none. The function gets its folder, under whichever name it is whole, and raises Damaged.

    Raises UsageError when it is damaged.
    """
    problem = None
    for _ in range(3):  # a live writer may swap the folders between two of our looks
        for candidate in (path, path.with_name(OLD + path.name)):
            if not patiently(candidate.is_dir, f"cannot read {candidate}"):
                continue
            try:
                return read(candidate)
            except Damaged as error:
                problem = f"checkpoint {candidate} is damaged ({error})"
    if problem:
        raise UsageError(f"{problem}: use another checkpoint, or remove it")
    return None


def unread(path: Path, error: OSError) -> Damaged | UsageError:
    """Returns the exception to raise for a checkpoint's file that cannot be read: Damaged if it is missing.
    After a disk error or without permission it is not damaged: then Unavailable or UsageError."""
    if error.errno in MISSING:
        return Damaged(f"{path.name}: {reason(error)}")
    return failure(f"cannot read {path} ({reason(error)}); nothing of the run is changed", error)


def check_file(path: Path, size: int, expected: int) -> None:
    """Raises Damaged unless a checkpoint's file has that size and checksum, Unavailable where it cannot be
    read."""
    try:
        status = patiently(lambda: os.stat(path))
        if not stat.S_ISREG(status.st_mode):
            raise Damaged(f"{path.name} is no file")
        if status.st_size != size:
            raise Damaged(f"{path.name} has {status.st_size} bytes instead of {size}")
        if patiently(lambda: checksum(path)) != expected:
            raise Damaged(f"the checksum of {path.name} is wrong")
    except OSError as error:
        raise unread(path, error) from error


def check_data(path: Path) -> None:
    """Raises UsageError unless a checkpoint's files have the sizes and checksums of its manifest."""
    try:
        for name, (size, expected) in load_manifest(path).files.items():
            check_file(path / name, size, expected)
    except Damaged as error:
        raise UsageError(f"checkpoint {path} is damaged ({error})") from error


def check_any(paths: Iterable[Path]) -> None:
    """Raises UsageError unless one of some checkpoints is whole, Unavailable where one cannot be read."""
    problem = UsageError("there is no checkpoint")
    for path in paths:
        try:
            check_data(path)
        except Unavailable:
            raise
        except UsageError as error:
            problem = error
        else:
            return
    raise problem


def signature_of(variables: Mapping[str, Any]) -> Signature:
    """Returns the shape and dtype of TensorFlow's variables, by name."""
    return {name: (tuple(value.shape.as_list()), value.dtype.name) for name, value in variables.items()}


def compare(path: Path, asked: Signature, held: Signature, partial: bool) -> None:
    """Raises UsageError where variables that are asked for are not those that the checkpoint at `path` holds.

    partial: it may hold more.
    """
    found = differences(asked, held)
    if partial:
        found = {name: words for name, words in found.items() if name in asked}
    if found and asked.keys() > held.keys() and has_optimizers(asked) and not has_optimizers(held):
        raise UsageError(
            f"checkpoint {path} holds a policy alone, as a published one does: there is nothing to train on "
            "from; choose another --output_dir"
        )
    if found:
        raise UsageError(
            f"checkpoint {path} is of a different run or model ({shown(found, _SHOWN)}): "
            "choose another --output_dir, or use the hparams that the run was started with (its hparams.json)"
        )


def differences(asked: Signature, held: Signature) -> dict[str, str]:
    """Returns the variables that are not the same in a checkpoint as they are asked for, by name, each with
    words that say how."""
    found = {}
    for name in sorted(asked.keys() | held.keys()):
        if name not in asked:
            found[name] = f"{name}: in the checkpoint only"
        elif name not in held:
            found[name] = f"{name}: not in the checkpoint"
        elif asked[name] != held[name]:
            found[name] = f"{name}: {_words(held[name])} in the checkpoint, {_words(asked[name])} asked for"
    return found


def shown(found: dict[str, str], most: int) -> str:
    """Returns the first `most` of `differences` in a line, and how many more there are."""
    more = f"; and {len(found) - most} more" if len(found) > most else ""
    return "; ".join([*found.values()][:most]) + more


def has_optimizers(signature: Signature) -> bool:
    """Says whether there are an optimizer's variables: policies that are kept alone have none."""
    return any("optimizer/" in name for name in signature)


def _words(shape_dtype: tuple[tuple[int, ...], str]) -> str:
    return f"{shape_dtype[1]}{list(shape_dtype[0])}"


def body_checksum(body: dict[str, Any]) -> int:
    """Returns the checksum of a manifest's other entries."""
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())
