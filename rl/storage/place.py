"""Places where files are kept: a folder of this machine, an address such as `gs://bucket/folder`.

Two kinds of stores hide behind `tf.io.gfile`. In an object store a file is there, whole, once it has been
written, and folders are only names. In a file system (`file://`, `ram://`, `hdfs://`) folders must be made,
and a file is seen while it is being written; so it is written under another name and renamed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import tensorflow as tf

from rl.errors import Unavailable, UsageError
from rl.storage.address import join, scheme_of
from rl.storage.files import may_pass, patiently, reason

T = TypeVar("T")
_FILE_SYSTEMS = {"file", "ram", "hdfs", "viewfs"}
_TEMPORARY = ".tmp-upload"  # one at a time in a folder: a crash leaves one at most
_PROBE = 1 << 16  # bytes of the probe file
# Errors that last until somebody changes an address, an account or its rights.
_FOR_GOOD = (
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnauthenticatedError,
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnimplementedError,
)
_SHOWN = 300  # characters of a reason: some stores answer with pages


class PlaceError(Exception):
    """A place that could not be read or written; the text is one line that says which and why.

    Attributes:
        passes: whether the same call may succeed later.
    """

    passes = True


class Missing(PlaceError):
    """A file that is not there, as far as its store says."""


class Place(Protocol):
    """Files below a folder or an address, by names such as `best/manifest.json`.

    Methods raise PlaceError where the store fails or does not answer: a place that cannot be read is never
    taken for an empty one.
    """

    address: str

    def names(self, folder: str = "", files: bool = False) -> list[str]:
        """Lists what is in a folder, sorted, without the folder's name; nothing where it is not there.

        files: whether folders in it are left out.
        """

    def size(self, name: str) -> int | None:
        """Returns the size of a file in bytes, None where there is none of that name."""

    def get(self, name: str, path: Path) -> None:
        """Downloads a file to `path`, replacing any file there. Raises Missing where no file has that
        name."""

    def put(self, path: Path, name: str) -> None:
        """Uploads a file, replacing any of that name: a reader finds the old file or the new one. Raises
        Missing where there is nothing at `path`."""

    def remove(self, name: str) -> None:
        """Removes a file, or a folder with all that is in it, if it is there."""


class Folder:
    """A place on this machine, from which files come as hard links: they stay when the place removes them."""

    def __init__(self, path: Path):
        self.address, self._path = str(path), path

    def names(self, folder: str = "", files: bool = False) -> list[str]:
        with _told("read", str(self._path / folder)):
            path = self._path / folder
            listed = sorted(os.listdir(path)) if path.is_dir() else []
            return [name for name in listed if not (files and (path / name).is_dir())]

    def size(self, name: str) -> int | None:
        with contextlib.suppress(Missing), _told("read", str(self._path / name)):
            return os.path.getsize(self._path / name)
        return None

    def get(self, name: str, path: Path) -> None:
        with _told("read", str(self._path / name)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            try:
                os.link(self._path / name, path)
            except FileNotFoundError:
                raise
            except OSError:  # a file system without hard links
                shutil.copyfile(self._path / name, path)

    def put(self, path: Path, name: str) -> None:
        target = self._path / name
        with _told("write", str(target)):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target.with_name(_TEMPORARY))
            os.replace(target.with_name(_TEMPORARY), target)

    def remove(self, name: str) -> None:
        path = self._path / name
        with contextlib.suppress(Missing), _told("remove", str(path)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


class Remote:
    """A place that `tf.io.gfile` reaches.

    Raises:
        UsageError: TensorFlow has no file system for the address.
    """

    def __init__(self, address: str):
        self.address = address
        scheme, known = scheme_of(address), tf.io.gfile.get_registered_schemes()
        names = sorted({name.decode() if isinstance(name, bytes) else name for name in known} - {""})
        if scheme not in names:
            raise UsageError(
                f"--output_dir {address}: TensorFlow has no file system {scheme}:// here; "
                f"known: {', '.join(names)}"
            )

    def names(self, folder: str = "", files: bool = False) -> list[str]:
        address = self._at(folder)
        with _told("read", address):
            if not tf.io.gfile.exists(address):
                return []
        try:
            with _told("read", address):
                names = sorted({name.rstrip("/") for name in tf.io.gfile.listdir(address)} - {""})
        except Missing as error:  # `listdir` takes any failure for a missing folder; `exists` does not
            raise PlaceError(str(error)) from error
        return [name for name in names if not files or self._is_file(join(address, name))]

    def _is_file(self, address: str) -> bool:
        """Says whether there is a file; `isdir` would say that there is no folder where it gets no answer."""
        with contextlib.suppress(Missing), _told("read", address):  # removed just now
            return not tf.io.gfile.stat(address).is_directory
        return False

    def size(self, name: str) -> int | None:
        address = self._at(name)
        with _told("read", address):
            return int(tf.io.gfile.stat(address).length) if tf.io.gfile.exists(address) else None

    def get(self, name: str, path: Path) -> None:
        with _told("read", self._at(name)):
            path.parent.mkdir(parents=True, exist_ok=True)
            tf.io.gfile.copy(self._at(name), str(path), overwrite=True)

    def put(self, path: Path, name: str) -> None:
        address = self._at(name)
        with _told("write", address):
            if not self._is_file_system():
                tf.io.gfile.copy(str(path), address, overwrite=True)
                return
            tf.io.gfile.makedirs(_parent(address))
            temporary = join(_parent(address), _TEMPORARY)
            if tf.io.gfile.exists(temporary):  # what a crash has left; ram:// would write behind it
                tf.io.gfile.remove(temporary)
            tf.io.gfile.copy(str(path), temporary, overwrite=True)
            tf.io.gfile.rename(temporary, address, overwrite=True)

    def remove(self, name: str) -> None:
        address = self._at(name)
        with contextlib.suppress(Missing), _told("remove", address):
            (tf.io.gfile.rmtree if tf.io.gfile.isdir(address) else tf.io.gfile.remove)(address)

    def check_writable(self) -> None:
        """Proves, by writing and removing a file, that a run can be written here; makes no folder.

        Raises:
            UsageError: it cannot; Unavailable where that may pass.
        """
        name = f".tmp-probe-{uuid.uuid4().hex}"

        def write() -> None:
            place = self.address.rstrip("/")
            with _told("write in", self.address):
                while self._is_file_system() and not tf.io.gfile.exists(place) and _parent(place) != place:
                    place = _parent(place)  # folders can be made in one that is writable
                with tf.io.gfile.GFile(join(place, name), "wb") as file:
                    file.write(os.urandom(_PROBE))
                tf.io.gfile.remove(join(place, name))

        asked(write, "does it exist, and may this machine write there?")

    def _at(self, name: str) -> str:
        return join(self.address, name) if name else self.address

    def _is_file_system(self) -> bool:
        return self.address.partition("://")[0].lower() in _FILE_SYSTEMS


def read(place: Place, name: str) -> bytes | None:
    """Reads a small file; returns None where there is none. Raises PlaceError."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            place.get(name, Path(folder) / "file")
        except Missing:
            return None
        return (Path(folder) / "file").read_bytes()


def empty(folder: Path) -> None:
    """Removes all that is in a folder of this machine. Raises UsageError where it cannot."""
    place = Folder(folder)
    try:
        for name in place.names():
            place.remove(name)
    except PlaceError as error:
        raise UsageError(f"cannot empty {folder}: {error}") from error


def asked(
    call: Callable[[], T],
    advice: str = "may this machine read and write there?",
) -> T:
    """Calls a function that a person waits for, and returns its result; tries again after temporary failures.

    Raises:
        UsageError: the text of a PlaceError, and the advice; Unavailable if the failure may be temporary.
    """

    def once() -> T:
        try:
            return call()
        except PlaceError as error:
            raise (Unavailable if error.passes else UsageError)(
                f"{error}: {advice} else choose another --output_dir"
            ) from error

    return patiently(once)


@contextlib.contextmanager
def _told(what: str, address: str) -> Iterator[None]:
    """Turns failures into PlaceErrors that name the operation and the address."""
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        kind = Missing if isinstance(error, tf.errors.NotFoundError | FileNotFoundError) else PlaceError
        told = kind(f"cannot {what} {address} ({reason(error)[:_SHOWN]})")
        told.passes = may_pass(error) if isinstance(error, OSError) else not isinstance(error, _FOR_GOOD)
        raise told from error


def _parent(address: str) -> str:
    scheme, path = address.split("://", 1)
    above = path.rpartition("/")[0] or "/" * path.startswith("/")
    return f"{scheme}://{above}" if path.strip("/") else address
