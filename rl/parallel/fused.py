"""Parts of a TensorFlow graph that XLA compiles by themselves.

Convolutions on a CPU are quickest as TensorFlow's own kernels, so what learns with them is compiled as a
graph (`compile=auto`). There each elementwise operation reads and writes its whole tensors; XLA makes one
pass of many.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


class _Fusing(threading.local):
    on = False


_fusing = _Fusing()


@contextlib.contextmanager
def fusing(on: bool) -> Iterator[None]:
    """Lets what is traced within get, where `on`, its `fused` parts compiled by XLA."""
    before, _fusing.on = _fusing.on, on
    try:
        yield
    finally:
        _fusing.on = before


def fused(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns `function(*arguments)`, by XLA where a graph is traced that wants it (`fusing`)."""
    if not _fusing.on or tf.executing_eagerly():
        return function(*arguments)
    return tf.function(function, jit_compile=True, autograph=False)(*arguments)
