"""Small file operations that survive a crash: whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import re
import shutil
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rl.errors import Unavailable, UsageError

_CHUNK = 1 << 22  # bytes read at a time when a file is checksummed
_PROBE = 1 << 16  # bytes of the probe file: an empty file fits on a full disk
PAUSES = (0.1, 1.0)  # seconds before a failed operation is tried again
MISSING = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR}  # there is no such file
# Errors that last until somebody changes a path or its rights; all others may be temporary.
_FOR_GOOD = MISSING | {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTEMPTY,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EINVAL,
    None,
}
PATIENCE = 10.0  # seconds that a process which was just killed may take to be gone
TEMPORARY, OLD = ".ckpt-tmp-", ".ckpt-old-"  # before the names of folders that are written, replaced
T = TypeVar("T")
_log = logging.getLogger("rl.files")


def may_pass(error: BaseException) -> bool:
    """Says whether the same call may succeed later: a full disk, one that does not answer, a lost
    connection."""
    return isinstance(error, Unavailable) or (isinstance(error, OSError) and error.errno not in _FOR_GOOD)


def failure(text: str, error: BaseException) -> UsageError:
    """Returns the exception to raise if `error` ends the work: Unavailable if it may be temporary, else
    UsageError.
    """
    return (Unavailable if may_pass(error) else UsageError)(text)


def patiently(call: Callable[[], T], failed: str = "") -> T:
    """Calls a function and returns its result; tries again after a moment if it fails for a temporary reason.

    failed: text of the UsageError or Unavailable that is raised if all tries fail; empty: the last error is
        raised itself.
    """
    try:
        return _tried(call)
    except OSError as error:
        if not failed:
            raise
        raise failure(f"{failed}: {reason(error)}", error) from error


def _tried(call: Callable[[], T]) -> T:
    for pause in PAUSES:
        try:
            return call()
        except (OSError, Unavailable) as error:
            if not may_pass(error):
                raise
            _log.warning("%s: trying again", error if isinstance(error, Unavailable) else _named(error))
            time.sleep(pause)
    return call()


def set_aside(path: Path, why: str = "as it was found", name: str | None = None) -> None:
    """Renames a file that a run must not use to `NAME.old`, or `NAME.old2` and so on, and warns. Raises
    OSError.

    why: words of the warning between the file's name and the new one.
    name: NAME, if it is not the file's own.
    """
    number, name = 1, name or path.name
    while (other := path.with_name(f"{name}.old{'' if number == 1 else number}")).exists():
        number += 1
    os.rename(path, other)
    _log.warning("%s %s is kept as %s", path, why, other.name)


def reason(error: BaseException) -> str:
    """Returns the short, human part of an operating-system or TensorFlow error, on one line."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = getattr(error, "message", text) or text
    text = re.sub(r"\{\{.*?\}\}|\[Op:\w+\]", " ", text)  # TensorFlow's marks of the op that failed
    return " ".join(text.split()) or type(error).__name__


def _named(error: OSError) -> str:
    return f"{reason(error)} ({error.filename})" if error.filename else reason(error)


def fsync_path(path: str | os.PathLike[str]) -> None:
    """Fsyncs a file, or a folder's list of names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def checksum(path: str | os.PathLike[str]) -> int:
    """Returns the CRC-32 of a file, read in chunks: about 4 GB/s, so the disk is what takes the time."""
    value = 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK):
            value = zlib.crc32(chunk, value)
    return value


@contextlib.contextmanager
def folder_lock(directory: Path, wait: bool) -> Iterator[bool]:
    """Locks a folder against other writers; yields False if another process holds the lock and `wait` is
    false.

    The kernel releases the lock when its holder dies, so a crash never leaves one behind. On file systems
    without locks it yields `wait`: writers (`wait=True`) go on, but mere cleaning is skipped.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            held = True
        except OSError:
            held = wait
        yield held
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def held_alone(folder: Path, refusal: str, patience: float) -> Iterator[None]:
    """Locks a folder against other processes that lock it too; the kernel releases the lock when this process
    dies. On file systems without locks it does nothing.

    Args:
        folder: an existing folder.
        refusal: the message if another process holds the lock.
        patience: seconds to wait for that process.

    Raises:
        UsageError: the folder cannot be opened.
        Unavailable: the other process still holds the lock after that.
    """
    descriptor = patiently(lambda: os.open(folder, os.O_RDONLY), f"cannot read {folder}")
    try:
        deadline = time.monotonic() + patience
        while not patiently(lambda: lock(descriptor, wait=False), f"cannot lock {folder}"):
            if time.monotonic() >= deadline:
                raise Unavailable(refusal)
            time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)


_NO_LOCKS = (
    errno.ENOLCK,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.EINVAL,
)  # of file systems without


def lock(descriptor: int, wait: bool = True) -> bool:
    """Locks an open file against others that do; returns False if another process holds the lock and `wait`
    is false. On file systems without locks it does nothing. Raises OSError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


@contextlib.contextmanager
def literally(folder: Path) -> Iterator[Path]:
    """Yields a path to the folder without `[`, `?`, `*` or a backslash, which TensorFlow would take for a
    pattern: a link, if the folder's own path has one."""
    if not set("[?*\\") & set(str(folder)):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="rl-link-") as place:
        link = Path(place) / "folder"
        link.symlink_to(folder.absolute(), target_is_directory=True)
        yield link


def commit_folder(temporary: Path, final: Path) -> None:
    """Renames a folder that is complete into its place; at any moment the old or the new one is there."""
    old = final.with_name(OLD + final.name)
    replaces = final.exists()
    if replaces:
        shutil.rmtree(old, ignore_errors=True)  # of a process that was killed before it could
        os.rename(final, old)
    try:
        os.rename(temporary, final)
    except OSError:
        if replaces:
            os.rename(old, final)
        raise
    fsync_path(final.parent)
    shutil.rmtree(old, ignore_errors=True)  # also one that a kill between the two renames has left


@contextlib.contextmanager
def new_output(target: Path) -> Iterator[Path]:
    """Yields a new folder beside `target`, for `commit_folder`; it is removed at the end where that was not
    called, as are those for the same target whose processes have died. Raises UsageError (Unavailable where
    that may pass)."""
    ensure_writable_dir(target.parent, "--to")
    before = f"{TEMPORARY}{target.name}-"
    try:
        remove_dead(target.parent, before)
        folder = target.with_name(f"{before}{uuid.uuid4().hex[:12]}")
        folder.mkdir()
        with folder_lock(folder, wait=True):
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise failure(f"cannot write {target} ({reason(error)}): name another --to", error) from error


def remove_dead(parent: Path, before: str) -> None:
    """Removes the folders in a folder whose names begin so, and that no process has locked. Raises OSError.
    On file systems without locks it removes none."""
    for name in os.listdir(parent):
        if name.startswith(before):
            with contextlib.suppress(OSError), folder_lock(parent / name, wait=False) as left:
                if left:
                    shutil.rmtree(parent / name, ignore_errors=True)


def tidy(directory: Path) -> None:
    """Removes the leftovers of crashed writes; restores an `.ckpt-old-` folder whose replacement was not
    finished.
    """
    for name in os.listdir(directory):
        path = directory / name
        if name.startswith(TEMPORARY) and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif name.startswith(OLD) and path.is_dir():
            final = directory / name.removeprefix(OLD)
            if final.exists():
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.rename(path, final)


def remove_folder(path: Path) -> None:
    """Removes a folder so that a crash half-way does not leave a damaged checkpoint under its name."""
    if path.exists():
        temporary = path.with_name(f"{TEMPORARY}removed-{uuid.uuid4().hex[:12]}")
        os.rename(path, temporary)
        shutil.rmtree(temporary)


def remove_quietly(path: Path) -> None:
    """Removes a file that is no longer needed, if it exists and can be removed."""
    with contextlib.suppress(OSError):
        patiently(lambda: path.unlink(missing_ok=True))


def write_text_atomic(path: str | os.PathLike[str], text: str) -> None:
    """Writes UTF-8 text under a temporary name, makes it durable and renames it: never a half-written file.

    Raises UsageError, with the old file untouched, when the folder is unwritable, Unavailable when the disk
    is full or fails.
    """
    path = Path(path)
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")

    def write() -> None:
        try:
            # Names of files may be no UTF-8: JSON gives them back from this.
            with open(temporary, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
            fsync_path(path.parent)
        except BaseException:
            remove_quietly(temporary)
            raise

    try:
        patiently(write)
    except OSError as error:
        raise failure(f"cannot write {path}: {reason(error)}", error) from error


def read_text(path: Path) -> str:
    """Reads the UTF-8 text of a file, tried again where that may help. Raises OSError; ValueError for no
    text."""
    return patiently(lambda: path.read_text(encoding="utf-8"))


def load_json(text: str | bytes) -> Any:
    """Reads JSON that a stranger may have written. Raises ValueError where it is none, or nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def text_if_sound(path: Path) -> str | None:
    """Reads the UTF-8 text of a file that a run can go on without; returns None where there is none.

    If it is a folder, or no UTF-8 text, it is set aside (`set_aside`). Raises OSError.
    """
    try:
        return read_text(path)
    except FileNotFoundError:
        return None
    except (ValueError, IsADirectoryError):
        set_aside(path, "is no text: it begins anew, and what was there")
        return None


def write_json_atomic(path: str | os.PathLike[str], data: Any) -> None:
    """Writes indented JSON as `write_text_atomic` does; paths and other plain objects are written as their
    text."""
    write_text_atomic(path, json.dumps(data, indent=2, ensure_ascii=False, default=plain) + "\n")


def plain(value: Any) -> Any:
    """Gives JSON a numpy scalar as a number, anything else as its text: `default=` of `json.dumps`."""
    return value.item() if isinstance(value, np.generic) else str(value)


def ensure_writable_dir(path: str | os.PathLike[str], flag: str = "--output_dir") -> Path:
    """Creates a folder and proves, by writing and removing a probe file, that a run can write there.

    flag: that names it, for messages.

    Raises UsageError (one line: not a folder, unwritable) or Unavailable (disk full); folders made on the way
    are removed again.
    """
    path = Path(path)
    missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
    probe = path / f".tmp-probe-{uuid.uuid4().hex}"

    def write() -> None:
        try:
            path.mkdir(parents=True, exist_ok=True)
            with open(probe, "wb") as file:
                file.write(os.urandom(_PROBE))
                file.flush()
                os.fsync(file.fileno())
        finally:
            remove_quietly(probe)

    try:
        patiently(write)
    except OSError as error:
        for folder in missing:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise failure(_unwritable(path, error, flag), error) from error
    return path


def _unwritable(path: Path, error: OSError, flag: str) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left in {path} ({reason(error)}): free some, or choose another {flag}"
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return f"{path} is not a folder, or a part of it is a file: choose another {flag}"
    return f"cannot write in {path} ({reason(error)}): make it writable, or choose another {flag}"
