"""Atomic upload and download of checkpoints: after an interruption at any file, a checkpoint is complete or
absent.

The data files of each version of a checkpoint have new names, so they can be written beside those that they
replace. Then the manifest is replaced, in one write, which makes the new version valid, and the old files are
removed. A folder without a manifest does not count as a checkpoint. Pieces of large variables, most of which
successive checkpoints share, are in one common folder (`pieces`), so that only new ones are uploaded.

Each `place` is a folder of checkpoints.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rl.errors import UsageError
from rl.storage.address import join
from rl.storage.manifest import BEST, MANIFEST, STEP, Damaged, Manifest, check_file, load_manifest
from rl.storage.place import Folder, Missing, Place

PIECES = "pieces"
_LOOKS = 3  # at a place where another process may just be writing
_PAUSE = 0.5  # seconds between two looks
T = TypeVar("T")
_log = logging.getLogger("rl.checkpoint")


def by_step(names: list[str]) -> list[str]:
    """Returns those among the names that are of numbered checkpoints, newest first."""
    return sorted(filter(STEP.fullmatch, names), key=_step, reverse=True)


def put_checkpoint(folder: Path, place: Place) -> None:
    """Makes the checkpoint in `folder` the one of its name in the place.

    Raises:
        Damaged: the files in `folder` do not match its manifest; the place is unchanged.
        PlaceError: it could not be written; the place has the old checkpoint or the new one.
    """
    manifest = load_manifest(folder)
    old = set(place.names(folder.name))
    there = old | (set(place.names(PIECES)) if _pieces_of(manifest) else set())
    for name, (size, crc) in manifest.files.items():
        target = _name_there(folder.name, manifest, name)
        if name in there and place.size(target) == size:
            continue
        check_file(folder / name, size, crc)
        place.put(folder / name, target)
    place.put(folder / MANIFEST, f"{folder.name}/{MANIFEST}")
    for name in sorted(old - manifest.files.keys() - {MANIFEST}):
        place.remove(f"{folder.name}/{name}")


def get_checkpoint(place: Place, folder: Path, pieces: bool = True) -> Manifest:
    """Brings the place's checkpoint of the folder's name into `folder` and checks it; pieces of large
    variables only where they are asked for.

    Raises:
        Missing: there is none.
        Damaged: it is not whole, or not what its manifest says; `folder` is not there then.
        PlaceError: it cannot be read.
    """
    try:
        place.get(f"{folder.name}/{MANIFEST}", folder / MANIFEST)
        manifest = load_manifest(folder)
        left_out = set() if pieces else _pieces_of(manifest)
        for name, (size, crc) in manifest.files.items():
            if name in left_out:
                continue
            try:
                place.get(_name_there(folder.name, manifest, name), folder / name)
            except Missing as error:
                raise Damaged(f"{name} is not there") from error
            check_file(folder / name, size, crc)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return manifest


def first_intact(where: str, names: Callable[[], list[str]], take: Callable[[str], T]) -> T | None:
    """Returns the result of `take` for the newest checkpoint for which it does not raise; None if there are
    no checkpoints.

    Args:
        where: the place of the checkpoints, for messages.
        names: returns the present checkpoints, newest first; called again, since a live run may rename and
            prune.
        take: raises Missing for a checkpoint that does not count, Damaged for one to skip with a warning.

    Raises:
        UsageError: there are some, but all of them are damaged.
    """
    before: list[str] | None = None
    damaged: list[str] = []
    for _ in range(_LOOKS):
        there = names()
        if there == before:
            break
        before, damaged = there, []
        for name in there:
            try:
                return take(name)
            except Missing:
                continue
            except Damaged as error:
                damaged.append(name)
                if name in names():  # else it was pruned a moment ago
                    _log.warning(
                        "checkpoint %s is damaged (%s): trying the one before", join(where, name), error
                    )
    if damaged:
        raise UsageError(
            f"every checkpoint in {where} is damaged (newest: {damaged[0]}): choose another --output_dir, "
            "or remove that folder to start anew"
        )
    return None


def get_newest(place: Place, folder: Path, pieces: bool = True) -> int | None:
    """Brings the newest intact one of the numbered checkpoints into a folder of its name in `folder`; returns
    its step, None where there is none.

    Raises:
        UsageError: there are some, but all of them are damaged.
        PlaceError: they cannot be read.
    """
    return first_intact(
        place.address,
        lambda: by_step(place.names()),
        lambda name: get_checkpoint(place, folder / name, pieces).step,
    )


def get_best(place: Place, folder: Path) -> None:
    """Brings the best policy, if there is one, into a folder of its name in `folder`; a damaged one costs a
    line. Raises PlaceError where it cannot be read."""
    for look in range(_LOOKS):
        try:
            get_checkpoint(place, folder / BEST)
            return
        except Missing:
            return
        except Damaged as error:  # unless it was replaced while we read
            problem = error
            if look + 1 < _LOOKS:
                time.sleep(_PAUSE)
    _log.warning("checkpoint %s/%s is damaged (%s): going on without", place.address, BEST, problem)


def get_newest_manifest(place: Place, folder: Path) -> None:
    """Brings the manifest alone of the newest numbered checkpoint, if there is one, into a folder of its name
    in `folder`. Raises PlaceError."""
    for name in by_step(place.names()):
        with contextlib.suppress(Missing):
            place.get(f"{name}/{MANIFEST}", folder / name / MANIFEST)
            return


def newest_step(place: Place) -> int | None:
    """Returns the step of the newest numbered checkpoint that has a manifest, None where there is none."""
    numbered = by_step(place.names())
    return next((_step(name) for name in numbered if place.size(f"{name}/{MANIFEST}") is not None), None)


def newest_whole(folder: Path) -> int | None:
    """Returns the step of the newest checkpoint in a folder of this machine whose files have their sizes,
    None where there is none."""
    place = Folder(folder)
    for name in by_step(place.names()):
        with contextlib.suppress(Damaged, OSError):
            files = load_manifest(folder / name).files
            if all(place.size(f"{name}/{file}") == size for file, (size, _) in files.items()):
                return _step(name)
    return None


def remove_checkpoint(place: Place, name: str) -> None:
    """Removes a checkpoint, its manifest first, so that after an interruption the rest does not count as
    one."""
    place.remove(f"{name}/{MANIFEST}")
    place.remove(name)


def prune(place: Place, keep: set[str]) -> None:
    """Removes all numbered checkpoints except `keep`, and the pieces that none of the kept ones uses. Raises
    PlaceError."""
    names = place.names()
    numbered = by_step(names)
    for name in numbered:
        if name not in keep:
            remove_checkpoint(place, name)
    if PIECES in names:
        needed = {piece for name in keep.intersection(numbered) for piece in _pieces_there(place, name)}
        for name in place.names(PIECES):
            if name not in needed:
                place.remove(f"{PIECES}/{name}")


def _pieces_there(place: Place, name: str) -> set[str]:
    """Returns the pieces that a checkpoint of the place needs; none for what is no checkpoint."""
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Missing, Damaged):
        place.get(f"{name}/{MANIFEST}", Path(folder) / MANIFEST)
        return _pieces_of(load_manifest(Path(folder)))
    return set()


def _pieces_of(manifest: Manifest) -> set[str]:
    return {name for pieces in manifest.pieces.values() for name in pieces["files"]}


def _name_there(checkpoint: str, manifest: Manifest, name: str) -> str:
    """Says where a file of a checkpoint lies in a place of checkpoints."""
    return f"{PIECES if name in _pieces_of(manifest) else checkpoint}/{name}"


def _step(name: str) -> int:
    return int(name.removeprefix("step_"))
