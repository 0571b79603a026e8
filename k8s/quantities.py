"""Amounts as Kubernetes writes them: "500m" cores, "8Gi" bytes."""

from __future__ import annotations

import re
from decimal import Decimal

from rl.errors import UsageError

_SUFFIXES = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{letter: Decimal(1000) ** (i + 1) for i, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Decimal(1024) ** (i + 1) for i, letter in enumerate("KMGTPE")},
}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(m|k|[MGTPE]|[KMGTPE]i)?")


def quantity(text: str) -> Decimal:
    """The number that `text` stands for. Raises ValueError where Kubernetes would refuse it."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    return Decimal(match[1]) * _SUFFIXES[match[2] or ""]


def checked_quantity(flag: str, text: str, example: str) -> str:
    """`text`, if it is a quantity above 0.

    Raises:
        UsageError: it is none.
    """
    try:
        if quantity(text) > 0:
            return text
    except ValueError:
        pass
    raise UsageError(f"{flag} {text!r}: needs an amount above 0, such as {example}")


def times(text: str, count: int) -> str:
    """`count` times a quantity, in its own unit."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    return f"{(Decimal(match[1]) * count).normalize():f}{match[2] or ''}"
