"""A study's database, its failures, and which of them may be temporary."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from optuna.storages import RDBStorage

from rl.errors import Unavailable, UsageError

# In the words of SQLite, PostgreSQL and MySQL: full, at odds with its disk, in use by others, out of reach.
PASSING = (
    "disk is full",
    "disk I/O error",
    "is locked",
    "could not connect",
    "onnection refused",
    "gone away",
)


def storage_of(address: str | Path | None) -> str | RDBStorage | None:
    """Returns a database as Optuna takes it: of an address, or, of a path, SQLite's file there. An address
    would not do for that: `?`, `{}` and `%20` in it are no part of a path. None is in memory."""
    if not isinstance(address, Path):
        return address
    file = address
    connect = {"creator": lambda: sqlite3.connect(file, check_same_thread=False)}
    return RDBStorage("sqlite:///study.db", engine_kwargs=connect)  # of this only the kind is read


@contextlib.contextmanager
def kept(address: str | Path | None) -> Iterator[None]:
    """Turns temporary failures of the database of `--study` inside into Unavailable: the same command can
    continue later. Other errors are raised as they are."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UsageError) or not _may_pass(error):
            raise
        raise Unavailable(f"--study {address}: its database fails now ({_in_words(error)})") from error


def not_opened(address: str | Path | None, error: Exception) -> UsageError:
    """Returns the exception to raise if a study cannot be opened, for any error of its database."""
    kind = Unavailable if _may_pass(error) else UsageError
    return kind(f"--study {address}: cannot open it ({_in_words(error)})")


def _may_pass(error: BaseException | None) -> bool:
    while error is not None:  # Optuna's error has SQLAlchemy's as its cause, and that one the database's own
        if any(each in str(error) for each in PASSING):
            return True
        error = error.__cause__
    return False


def _in_words(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).splitlines()[0] if str(error) else type(error).__name__
