"""Amounts as Kubernetes writes them: "500m" cores, "8Gi" bytes."""

from __future__ import annotations

import re
from decimal import Decimal

from rl.errors import UsageError

LEAST = "64Mi"  # of memory and of disk: Python alone would not start with less
_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{letter: Decimal(1000) ** (i + 1) for i, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Decimal(1024) ** (i + 1) for i, letter in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)(m|k|[MGTPE]|[KMGTPE]i)?")


def quantity(text: str) -> Decimal:
    """The number that `text` stands for. Raises ValueError where Kubernetes would refuse it."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    return Decimal(match[1]) * _SUFFIXES[match[2] or ""]


def checked_cores(flag: str, text: str) -> str:
    """Returns `text`, if it is an amount of cores.

    Raises:
        UsageError: it is none, or one that is meant for bytes.
    """
    _above_zero(flag, text, "4 or 500m")
    if text[-1] not in "0123456789.m":
        raise UsageError(f"{flag} {text!r}: needs cores, such as 4 or 500m")
    return text


def checked_bytes(flag: str, text: str, example: str) -> str:
    """Returns `text`, if it is an amount of memory or disk that something can run with.

    Raises:
        UsageError: it is none, or so small that a unit was forgotten.
    """
    if _above_zero(flag, text, example) < quantity(LEAST):
        raise UsageError(
            f"{flag} {text!r}: needs at least {LEAST}, such as {example}; a bare number is of bytes"
        )
    return text


def _above_zero(flag: str, text: str, example: str) -> Decimal:
    try:
        if (found := quantity(text)) > 0:
            return found
    except ValueError:
        pass
    raise UsageError(f"{flag} {text!r}: needs an amount above 0, such as {example}")


def times(text: str, count: int) -> str:
    """`count` times a quantity, in its own unit."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    return f"{(Decimal(match[1]) * count).normalize():f}{match[2] or ''}"
