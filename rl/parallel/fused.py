"""Parts of a TensorFlow graph that XLA compiles by themselves.

On a CPU, TensorFlow's own kernels are fastest for convolutions, so learning with convolutions is compiled as
a graph (`compile=auto`). In a graph each elementwise operation reads and writes whole tensors; XLA fuses many
of them into one pass.
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
    """Has XLA compile the `fused` parts of code that is traced in the `with` block, if `on`."""
    before, _fusing.on = _fusing.on, on
    try:
        yield
    finally:
        _fusing.on = before


def fused(function: Callable[..., Any], *arguments: Any) -> Any:
    """Returns `function(*arguments)`, compiled by XLA while a graph is traced inside `fusing`."""
    if not _fusing.on or tf.executing_eagerly():
        return function(*arguments)
    return tf.function(function, jit_compile=True, autograph=False)(*arguments)
