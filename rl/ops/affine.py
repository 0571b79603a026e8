"""The product and the bias of a dense layer."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

import tensorflow as tf

from rl.types import Tensor

ROWS = 64  # from this many rows on, a column of ones costs less than copies of the bias
_APART = contextvars.ContextVar("bias_apart", default=False)


@contextlib.contextmanager
def bias_apart() -> Iterator[None]:
    """Makes `affine` add the bias by itself in the `with` block, for networks in which the bias as a row of
    the kernel is slower."""
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def affine(x: Tensor, kernel: Tensor, bias: Tensor) -> Tensor:
    """Returns x @ kernel + bias, [N, units].

    If there are many narrow rows, as with observations, the bias becomes one more row of the kernel, and
    every x gets a 1 appended. Otherwise XLA on CPUs writes the bias once for each row, for YNNPACK to add:
    PPO and DQN with small networks take 4 to 13 % longer. The extra row is slower (use `bias_apart`) in a
    batched product of several kernels, where MB-MPO and MAML, whose tasks have policies of their own, took 5
    and 40 times as long, and for C51, which took 13 % longer.

    Args:
        x: [N, F]; N may be unknown. Of other shapes, [..., N, F], it is the plain product.
        kernel: [F, units].
        bias: [units].
    """
    rows, width = x.shape[-2:]
    narrow = rows is not None and rows >= ROWS and 4 * width <= kernel.shape[1]
    if x.shape.rank != 2 or not narrow or _APART.get():
        return tf.matmul(x, kernel) + bias
    return tf.matmul(tf.concat([x, tf.ones([rows, 1], x.dtype)], 1), tf.concat([kernel, bias[None]], 0))
