"""Folders of this machine in which runs with a remote output are worked on."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rl.errors import UsageError
from rl.storage.files import PATIENCE, folder_lock, held_alone, reason
from rl.storage.manifest import MANIFEST, Damaged, load_manifest
from rl.storage.remote_checkpoint import by_step

_ATTEMPTS = 5  # at linking a checkpoint that is replaced meanwhile


def staging_folder(address: str) -> Path:
    """The folder for an address: the same in every process of this user that has the same TMPDIR."""
    readable = re.sub(r"[^A-Za-z0-9]+", "_", address)[-40:].strip("_")
    name = f"{readable}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    return Path(tempfile.gettempdir()) / f"rl-staging-{os.getuid()}" / name


def make(folder: Path) -> None:
    """Makes a staging folder that nobody but this user can write in.

    Raises:
        UsageError: it cannot be made, or somebody else has made what it lies in.
    """
    try:
        folder.parent.mkdir(mode=0o700, exist_ok=True)
        if folder.parent.is_symlink() or folder.parent.stat().st_uid != os.getuid():
            raise PermissionError(0, "it is not this user's")  # /tmp is everybody's
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write in {folder.parent} ({reason(error)}), where runs with a remote output are worked "
            "on: set TMPDIR to a writable folder with room for the run"
        ) from error


@contextlib.contextmanager
def held(folder: Path, address: str) -> Iterator[None]:
    """Makes the folder and holds it against other processes; the kernel lets go of it when this one dies.

    Raises:
        UsageError: it cannot be made, or another process trains there.
    """
    make(folder)
    refusal = f"another process of this machine trains {address}: wait for it, or stop it"
    with held_alone(folder, refusal, PATIENCE):
        yield


def empty(folder: Path) -> None:
    """Removes all that is in a folder. Raises UsageError where it cannot."""
    try:
        for each in os.scandir(folder):
            if each.is_dir(follow_symlinks=False):
                shutil.rmtree(each.path)
            else:
                os.unlink(each.path)
    except OSError as error:
        raise UsageError(f"cannot empty {folder} ({reason(error)})") from error


def link_newest(parent: Path, target: Path) -> Path | None:
    """Hard links, in `target`, to the files of the newest numbered checkpoint in `parent`, which the run may
    remove meanwhile. None where there is none."""
    for _ in range(_ATTEMPTS):
        if not parent.is_dir():
            return None
        with contextlib.suppress(FileNotFoundError, Damaged), folder_lock(parent, wait=True):
            found = by_step(os.listdir(parent))
            return _link(parent / found[0], target / found[0]) if found else None
    return None


def link_single(folder: Path, target: Path) -> Path | None:
    """The same of a checkpoint that is replaced under its name."""
    for _ in range(_ATTEMPTS):
        if not folder.parent.is_dir():
            return None
        with contextlib.suppress(FileNotFoundError, Damaged), folder_lock(folder.parent, wait=True):
            return _link(folder, target / folder.name) if folder.is_dir() else None
    return None


def _link(folder: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in [*load_manifest(folder).files, MANIFEST]:
        try:
            os.link(folder / name, target / name)
        except FileNotFoundError:
            raise
        except OSError:  # a file system without hard links
            shutil.copyfile(folder / name, target / name)
    return target
