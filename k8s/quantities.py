"""Amounts as Kubernetes writes them: "500m" cores, "8Gi" bytes."""

from __future__ import annotations

import re
from decimal import Decimal

from rl.errors import UsageError

LEAST = 64 * 1024**2  # bytes of memory and of disk: Python alone would not start with less
_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{letter: Decimal(1000) ** (i + 1) for i, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Decimal(1024) ** (i + 1) for i, letter in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(m|k|[MGTPE]|[KMGTPE]i)?")


def quantity(text: str) -> Decimal | None:
    """Returns the number that `text` stands for; None for what Kubernetes would refuse."""
    match = _QUANTITY.fullmatch(text)
    return None if match is None else Decimal(match[1]) * _SUFFIXES[match[2] or ""]


def checked_cores(flag: str, text: str) -> str:
    """Returns `text`, if it is an amount of cores. Raises UsageError if it is none, or one of bytes."""
    if not quantity(text):
        raise UsageError(f"{flag} {text!r}: needs an amount above 0, such as 4 or 500m")
    if text[-1] not in "0123456789.m":
        raise UsageError(f"{flag} {text!r}: needs cores, such as 4 or 500m")
    return text


def checked_bytes(flag: str, text: str, example: str) -> str:
    """Returns `text`, if it is an amount of memory or disk that something can run with.

    Raises:
        UsageError: it is none, or so small that a unit was forgotten.
    """
    amount = quantity(text)
    if not amount:
        raise UsageError(f"{flag} {text!r}: needs an amount above 0, such as {example}")
    if amount < LEAST:
        raise UsageError(
            f"{flag} {text!r}: needs at least 64Mi, such as {example}; a bare number is of bytes"
        )
    return text


def times(text: str, count: int) -> str:
    """Returns `count` times a quantity, in its own unit."""
    number = text.rstrip("".join(_SUFFIXES))
    return f"{(Decimal(number) * count).normalize():f}{text[len(number) :]}"
