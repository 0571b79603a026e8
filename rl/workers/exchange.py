"""How the arrays of a rollout travel: as they are, or with pictures compressed."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

LEAST = 4096  # bytes: smaller arrays are not worth the call


class Compressed(NamedTuple):
    """An array of bytes, compressed by LZ4."""

    data: bytes
    shape: tuple[int, ...]


class Sent(NamedTuple):
    """What sending a rollout came to."""

    raw: int  # bytes of its arrays
    sent: int  # bytes that travel
    seconds: float  # that the compression took


def packed(arrays: list[np.ndarray], compress: bool) -> tuple[list[Any], Sent]:
    """The arrays as they are sent: with `compress`, those of uint8 (pictures) compressed."""
    raw = sum(each.nbytes for each in arrays)
    if not compress:
        return arrays, Sent(raw, raw, 0.0)
    import lz4.frame

    begun, sent = time.perf_counter(), 0
    found: list[Any] = []
    for each in arrays:
        if each.dtype == np.uint8 and each.nbytes >= LEAST:
            data = lz4.frame.compress(np.ascontiguousarray(each).data)
            found.append(Compressed(data, each.shape))
            sent += len(data)
        else:
            found.append(each)
            sent += each.nbytes
    return found, Sent(raw, sent, time.perf_counter() - begun)


def unpacked(arrays: list[Any]) -> list[np.ndarray]:
    """The arrays as they were."""
    return [_expanded(each) if isinstance(each, Compressed) else each for each in arrays]


def _expanded(each: Compressed) -> np.ndarray:
    import lz4.frame

    return np.frombuffer(lz4.frame.decompress(each.data), np.uint8).reshape(each.shape)
