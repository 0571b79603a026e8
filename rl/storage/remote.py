"""Files at addresses such as `gs://bucket/folder/file`, through `tf.io.gfile`.

Two kinds of places hide behind it. In an object store a file is there, whole, once it has been written, and
folders are only names. In a file system (`file://`, `ram://`, `hdfs://`) folders must be made, and a file is
seen while it is being written; so it is written under another name and renamed.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import tensorflow as tf

from rl.errors import Unavailable, UsageError
from rl.storage.address import join, scheme_of
from rl.storage.files import may_pass, patiently, reason

T = TypeVar("T")
_FILE_SYSTEMS = {"file", "ram", "hdfs", "viewfs"}
_TEMPORARY = ".tmp-upload"  # one at a time in a folder: a crash leaves one at most
_PROBE = 1 << 16  # bytes of the probe file
# What stays so until somebody changes an address, an account or its rights.
_FOR_GOOD = (
    tf.errors.NotFoundError,
    tf.errors.PermissionDeniedError,
    tf.errors.UnauthenticatedError,
    tf.errors.InvalidArgumentError,
    tf.errors.FailedPreconditionError,
    tf.errors.UnimplementedError,
)
_SHOWN = 300  # characters of a reason: some stores answer with pages


class RemoteError(Exception):
    """A place that could not be read or written; the text is one line that says which and why.

    Attributes:
        passes: whether the same call may succeed later.
    """

    passes = True


class Missing(RemoteError):
    """A file that is not there, as far as its store says."""


def check_scheme(address: str) -> None:
    """Raises UsageError unless TensorFlow has a file system for the address."""
    scheme = scheme_of(address)
    known = sorted({_text(each) for each in tf.io.gfile.get_registered_schemes()} - {""})
    if scheme not in known:
        raise UsageError(
            f"--output_dir {address}: TensorFlow has no file system {scheme}:// here; "
            f"known: {', '.join(known)}"
        )


def check_writable(address: str) -> None:
    """Proves, by writing and removing a file, that a run can write there; makes no folder.

    Raises:
        UsageError: it cannot; Unavailable where that may pass.
    """
    name = f".tmp-probe-{uuid.uuid4().hex}"

    def write() -> None:
        place = address.rstrip("/")
        with _told("write in", address):
            while _is_file_system(place) and not tf.io.gfile.exists(place) and _parent(place) != place:
                place = _parent(place)  # folders can be made in one that is writable
            with tf.io.gfile.GFile(join(place, name), "wb") as file:
                file.write(os.urandom(_PROBE))
            tf.io.gfile.remove(join(place, name))

    asked(write, "does it exist, and may this machine write there? else choose another --output_dir")


def asked(call: Callable[[], T], advice: str) -> T:
    """Calls for what a person waits for, again where that may help; returns what it returns.

    Raises:
        UsageError: what a RemoteError says, and the advice; Unavailable where it may pass.
    """

    def once() -> T:
        try:
            return call()
        except RemoteError as error:
            raise (Unavailable if error.passes else UsageError)(f"{error}: {advice}") from error

    return patiently(once)


def exists(address: str) -> bool:
    """Whether a file or folder is there. Raises RemoteError where its store does not say."""
    with _told("read", address):
        return bool(tf.io.gfile.exists(address))


def names(folder: str) -> list[str]:
    """Names in a folder, sorted; none where it is not there. Raises RemoteError where it cannot be read."""
    if not exists(folder):
        return []
    try:
        with _told("read", folder):
            return sorted({name.rstrip("/") for name in tf.io.gfile.listdir(folder)} - {""})
    except Missing as error:  # `listdir` takes any failure for a missing folder; `exists` does not
        raise RemoteError(str(error)) from error


def is_folder(address: str) -> bool:
    """Whether it is a folder; a failure is taken for a file, which then cannot be read."""
    return bool(tf.io.gfile.isdir(address))


def size(address: str) -> int:
    """Bytes of a file. Raises Missing, RemoteError."""
    with _told("read", address):
        return int(tf.io.gfile.stat(address).length)


def read(address: str) -> bytes:
    """A small file's content. Raises Missing, RemoteError."""
    with _told("read", address), tf.io.gfile.GFile(address, "rb") as file:
        return bytes(file.read())


def get(address: str, path: Path) -> None:
    """Copies a file in, over what is there. Raises Missing, RemoteError."""
    with _told("read", address):
        path.parent.mkdir(parents=True, exist_ok=True)
        tf.io.gfile.copy(address, str(path), overwrite=True)


def put(path: Path, address: str) -> None:
    """Copies a file out, over what is there: a reader finds the old one or the new one. Raises RemoteError,
    and Missing where there is nothing to copy."""
    with _told("write", address):
        if not _is_file_system(address):
            tf.io.gfile.copy(str(path), address, overwrite=True)
            return
        tf.io.gfile.makedirs(_parent(address))
        temporary = join(_parent(address), _TEMPORARY)
        if tf.io.gfile.exists(temporary):  # what a crash has left; ram:// would write behind it
            tf.io.gfile.remove(temporary)
        tf.io.gfile.copy(str(path), temporary, overwrite=True)
        tf.io.gfile.rename(temporary, address, overwrite=True)


def remove(address: str) -> None:
    """Removes a file, if it is there. Raises RemoteError."""
    with contextlib.suppress(Missing), _told("remove", address):
        tf.io.gfile.remove(address)


def remove_folder(address: str) -> None:
    """Removes a folder and all that is in it, if it is there. Raises RemoteError."""
    with contextlib.suppress(Missing), _told("remove", address):
        tf.io.gfile.rmtree(address)


@contextlib.contextmanager
def _told(what: str, address: str) -> Iterator[None]:
    """Failures become RemoteErrors that say what could not be done with which address."""
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        kind = Missing if isinstance(error, (tf.errors.NotFoundError, FileNotFoundError)) else RemoteError
        told = kind(f"cannot {what} {address} ({reason(error)[:_SHOWN]})")
        told.passes = may_pass(error) if isinstance(error, OSError) else not isinstance(error, _FOR_GOOD)
        raise told from error


def _is_file_system(address: str) -> bool:
    return address.partition("://")[0].lower() in _FILE_SYSTEMS


def _parent(address: str) -> str:
    scheme, path = address.split("://", 1)
    above = path.rpartition("/")[0] or "/" * path.startswith("/")
    return f"{scheme}://{above}" if path.strip("/") else address


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
