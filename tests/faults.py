"""File operations that fail once, or for good from one on."""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
import sys

import tensorflow as tf

BY_PATH = ("open", "rename", "replace", "link", "listdir", "scandir", "mkdir", "unlink", "rmdir", "stat")
BY_PATH += ("lstat",)
BY_DESCRIPTOR = ("fsync", "write", "ftruncate", "fstat")
# What TensorFlow makes of the same errors.
OF_TENSORFLOW = {errno.ENOSPC: tf.errors.ResourceExhaustedError, errno.ESTALE: tf.errors.AbortedError}


class Faults:
    """Counts the file operations below a folder, TensorFlow's too; fails one of them (or all from one on).

    Attributes:
        places: where in this project each operation was asked for, in order.
    """

    def __init__(self, monkeypatch, folder):
        self.folder, self.count, self.error = str(folder), 0, errno.EIO
        self.at, self.ever_after, self.places = -1, False, []
        for name in (*BY_PATH, *BY_DESCRIPTOR):
            monkeypatch.setattr(os, name, self._failing(getattr(os, name)))
        monkeypatch.setattr(fcntl, "flock", self._failing(fcntl.flock))
        opened = self._opening(io.open)
        monkeypatch.setattr(io, "open", opened)
        monkeypatch.setattr(builtins, "open", opened)
        for name in ("read", "write"):
            whole = getattr(tf.train.Checkpoint, name)
            monkeypatch.setattr(tf.train.Checkpoint, name, self._of_tensorflow(whole))
        monkeypatch.setattr(tf.io, "TFRecordWriter", self._writer(tf.io.TFRecordWriter))

    def begin(self, at, ever_after=False):
        self.count, self.at, self.ever_after, self.places = 0, at, ever_after, []

    def operation(self, path, name, of_tensorflow=False):
        """One is about to be made: counts it, and raises where it is its turn."""
        if not str(path).startswith(self.folder):
            return
        self.count += 1
        self.places.append(f"{name} {_place()}")
        if self.count == self.at or (self.ever_after and self.count > self.at >= 0):
            text = os.strerror(self.error)
            if of_tensorflow:
                raise OF_TENSORFLOW.get(self.error, tf.errors.UnknownError)(None, None, f"{path}; {text}")
            raise OSError(self.error, text, str(path))

    def _failing(self, function):
        def call(which=".", *args, **options):
            self.operation(_path(which, options), function.__name__)
            return function(which, *args, **options)

        return call

    def _opening(self, function):
        def call(which, *args, **options):
            path = _path(which, options)
            self.operation(path, "open")
            file = function(which, *args, **options)
            return _File(file, self, path) if str(path).startswith(self.folder) else file

        return call

    def _of_tensorflow(self, method):
        def call(checkpoint, path, *args, **options):
            self.operation(path, method.__name__, of_tensorflow=True)
            return method(checkpoint, path, *args, **options)

        return call

    def _writer(self, kind):
        faults = self

        class Writer:
            def __init__(self, path):
                self._path = path
                faults.operation(path, "new", of_tensorflow=True)
                self._writer = kind(path)

            def write(self, record):
                faults.operation(self._path, "record", of_tensorflow=True)
                self._writer.write(record)

            def flush(self):
                faults.operation(self._path, "flush", of_tensorflow=True)
                self._writer.flush()

            def close(self):
                self._writer.close()
                faults.operation(self._path, "close", of_tensorflow=True)

        return Writer


class _File:
    """An open file whose reads, writes and end are operations too."""

    def __init__(self, file, faults, path):
        self._file, self._faults, self._path = file, faults, path

    def __getattr__(self, name):
        if name in ("read", "readinto", "write", "flush"):
            self._faults.operation(self._path, name)
        return getattr(self._file, name)

    def __iter__(self):
        return iter(self._file)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.close(kind is None)

    def close(self, whole=True):
        self._file.close()
        if whole and self._file.mode not in ("r", "rb"):
            self._faults.operation(self._path, "close")


def _path(which, options):
    if isinstance(which, int):
        return os.readlink(f"/proc/self/fd/{which}")
    if options.get("dir_fd") is not None:
        return os.path.join(os.readlink(f"/proc/self/fd/{options['dir_fd']}"), which)
    return os.fspath(which) if hasattr(which, "__fspath__") else which


def _place():
    """The part of this project that asked for it."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if "/rl/" in file and "site-packages" not in file and os.path.basename(file) != "files.py":
            return os.path.basename(file)
        frame = frame.f_back
    return "?"
