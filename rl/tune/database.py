"""Failures of a study's database, and which of them may be temporary."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

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


@contextlib.contextmanager
def kept(address: str | None) -> Iterator[None]:
    """Turns temporary failures of the database of `--study` inside into Unavailable: the same command can
    continue later. Other errors are raised as they are."""
    try:
        yield
    except Exception as error:
        if isinstance(error, UsageError) or not _may_pass(error):
            raise
        raise Unavailable(f"--study {address}: its database fails now ({_in_words(error)})") from error


def not_opened(address: str | None, error: Exception) -> UsageError:
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
