"""Checkpoints at a remote address: there whole or not at all, whichever file was the last to be written.

A checkpoint's data have names of their own each time, so they can be written beside those of the checkpoint
that it replaces; then its manifest is written, one file, which makes it the one that is there; then what is
left of the old one goes. A folder without a manifest is nothing. Pieces of large variables, most of which one
checkpoint has in common with the next, lie in one folder for all (`pieces`), so that only new ones are sent.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path

from rl.errors import UsageError
from rl.storage import remote
from rl.storage.address import join
from rl.storage.manifest import MANIFEST, STEP, Damaged, Manifest, check_file, load_manifest

PIECES = "pieces"
_LOOKS = 3  # at a place where another process may just be writing
_PAUSE = 0.5  # seconds between two looks
_log = logging.getLogger("rl.mirror")


def by_step(names: list[str]) -> list[str]:
    """Those among the names that are of numbered checkpoints, newest first."""
    return sorted(
        filter(STEP.fullmatch, names), key=lambda name: int(name.removeprefix("step_")), reverse=True
    )


def put_checkpoint(folder: Path, address: str) -> None:
    """Makes the checkpoint in `folder` the one at the address.

    Raises:
        Damaged: what is in `folder` is not what its manifest says; the remote one is as it was.
        RemoteError: it could not be written; there is the old one or the new one.
    """
    manifest = load_manifest(folder)
    there = set(remote.names(address))
    pieces = set(remote.names(_pieces_of(address))) if _piece_files(manifest) else set()
    for name, (size, _) in manifest.files.items():
        place = _place(address, manifest, name)
        if name in there | pieces and remote.size(place) == size:
            continue
        check_file(folder / name, *manifest.files[name])
        remote.put(folder / name, place)
    remote.put(folder / MANIFEST, join(address, MANIFEST))
    for name in sorted(there - manifest.files.keys() - {MANIFEST}):
        remote.remove(join(address, name))


def get_checkpoint(address: str, folder: Path, pieces: bool = True) -> Manifest:
    """Copies the checkpoint at the address into `folder` and checks it; pieces only where they are asked for.

    Raises:
        Missing: there is none.
        Damaged: it is not whole, or not what its manifest says; `folder` is not there then.
        RemoteError: it cannot be read.
    """
    try:
        remote.get(join(address, MANIFEST), folder / MANIFEST)
        manifest = load_manifest(folder)
        left_out = set() if pieces else _piece_files(manifest)
        for name, (size, crc) in manifest.files.items():
            if name in left_out:
                continue
            try:
                remote.get(_place(address, manifest, name), folder / name)
            except remote.Missing as error:
                raise Damaged(f"{name} is not there") from error
            check_file(folder / name, size, crc)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return manifest


def get_newest(parent: str, folder: Path, pieces: bool = True) -> int | None:
    """Copies the newest intact one of the numbered checkpoints below `parent` into a folder of its name in
    `folder`; its step, None where there is none.

    Raises:
        UsageError: there are some, but all of them are damaged.
        RemoteError: they cannot be read.
    """
    before: list[str] | None = None
    damaged: list[str] = []
    for _ in range(_LOOKS):  # a live run may prune while we read
        found = by_step(remote.names(parent))
        if found == before:
            break
        before, damaged = found, []
        for name in found:
            try:
                return get_checkpoint(join(parent, name), folder / name, pieces).step
            except remote.Missing:  # its manifest never arrived: this one does not count
                continue
            except Damaged as error:
                damaged.append(name)
                _log.warning("checkpoint %s/%s is damaged (%s): trying the one before", parent, name, error)
    if damaged:
        raise UsageError(
            f"every checkpoint in {parent} is damaged (newest: {damaged[0]}): choose another --output_dir, "
            "or remove that folder to start anew"
        )
    return None


def get_single(address: str, folder: Path) -> None:
    """Copies the checkpoint that is replaced under its name (`best`) into `folder`, if there is one; a
    damaged one costs a line.

    Raises:
        RemoteError: it cannot be read.
    """
    for look in range(_LOOKS):
        try:
            get_checkpoint(address, folder)
            return
        except remote.Missing:
            return
        except Damaged as error:  # unless it was replaced while we read
            problem = error
            if look + 1 < _LOOKS:
                time.sleep(_PAUSE)
    _log.warning("checkpoint %s is damaged (%s): going on without", address, problem)


def get_newest_manifest(parent: str, folder: Path) -> None:
    """Copies the manifest alone of the newest checkpoint below `parent`, if there is one, into a folder of
    its name in `folder`. Raises RemoteError."""
    for name in by_step(remote.names(parent)):
        with contextlib.suppress(remote.Missing):
            remote.get(join(parent, name, MANIFEST), folder / name / MANIFEST)
            return


def newest_step(parent: str) -> int | None:
    """Step of the newest checkpoint below `parent` that has a manifest, None where there is none."""
    for name in by_step(remote.names(parent)):
        if remote.exists(join(parent, name, MANIFEST)):
            return int(name.removeprefix("step_"))
    return None


def newest_whole(folder: Path) -> int | None:
    """Step of the newest checkpoint in a local folder whose files have their sizes, None where there is
    none."""
    names = os.listdir(folder) if folder.is_dir() else []
    for name in by_step(names):
        try:
            manifest = load_manifest(folder / name)
            if all(
                os.path.getsize(folder / name / each) == size for each, (size, _) in manifest.files.items()
            ):
                return manifest.step
        except (Damaged, OSError):
            continue
    return None


def remove_checkpoint(address: str) -> None:
    """Removes one, its manifest first: what is left by an interruption is no checkpoint."""
    remote.remove(join(address, MANIFEST))
    remote.remove_folder(address)


def prune(parent: str, keep: set[str]) -> None:
    """Removes all numbered checkpoints below `parent` but those to keep, and pieces that none of these has.
    Raises RemoteError."""
    names = remote.names(parent)
    numbered = by_step(names)
    for name in numbered:
        if name not in keep:
            remove_checkpoint(join(parent, name))
    if PIECES in names:
        needed: set[str] = set()
        for name in keep.intersection(numbered):
            needed |= _remote_pieces(join(parent, name))
        for name in remote.names(join(parent, PIECES)):
            if name not in needed:
                remote.remove(join(parent, PIECES, name))


def _remote_pieces(address: str) -> set[str]:
    """The pieces that a checkpoint at an address needs; none for what is no checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            remote.get(join(address, MANIFEST), Path(folder) / MANIFEST)
            return _piece_files(load_manifest(Path(folder)))
        except (remote.Missing, Damaged):
            return set()


def _piece_files(manifest: Manifest) -> set[str]:
    return {name for each in manifest.pieces.values() for name in each["files"]}


def _pieces_of(address: str) -> str:
    return join(address.rpartition("/")[0], PIECES)


def _place(address: str, manifest: Manifest, name: str) -> str:
    """Where a file of the checkpoint at an address lies."""
    return join(_pieces_of(address) if name in _piece_files(manifest) else address, name)
