"""Stateless random numbers: the same seed gives the same numbers in eager, graph and XLA code.

A seed is an int32 tensor of shape [2]. Nothing here holds state: whoever needs new numbers folds a
counter into its seed, so that a run resumed from its counters draws what it would have drawn.

On the host the policy runs outside TensorFlow's runtime, without its stateless generator. There a `NoiseTape`
takes the seed's place: it records which numbers the traced function draws, and returns placeholders, which
the caller fills (`rl.runners.actor`).
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from rl.parallel import replicas
from rl.types import Tensor

_PHILOX = 1  # TensorFlow's number of the algorithm that eager, graph and XLA code implement to the same bits
_SCRAMBLE = 0x02461E293EC8F720  # the key by which TensorFlow scrambles seeds


class Rows(NamedTuple):
    """A seed for several learners or microbatches (see `rows`): each takes its own rows of the numbers that
    one learner would draw for the whole batch."""

    seed: Tensor


class _Microbatch(threading.local):
    place: int | Tensor = 0
    count = 1


_microbatch = _Microbatch()


class NoiseTape:
    """Stands for a seed while a function is traced for the host: every draw becomes an input.

    `wanted` lists the draws as (kind, shape, maxval), kind one of uniform, normal, randint.
    """

    def __init__(self, inputs: list[Tensor] | None = None):
        self.wanted: list[tuple[str, tuple[int, ...], int]] = []
        self._inputs = inputs

    def draw(self, kind: str, shape: Any, maxval: int = 0) -> Tensor:
        self.wanted.append((kind, tuple(int(size) for size in shape), maxval))
        if self._inputs is None:
            return tf.zeros(shape, tf.int32 if kind == "randint" else tf.float32)
        return self._inputs[len(self.wanted) - 1]


def rows(seed: Any) -> Any:
    """Returns a seed for numbers with one row per example of a batch: each learner and microbatch then draws
    only the rows of its part. The first axis of what is drawn must be the axis along which the batch is
    divided (of sequences: environments)."""
    whole = replicas.count() == 1 and _microbatch.count == 1
    return seed if isinstance(seed, NoiseTape) or whole else Rows(seed)


@contextlib.contextmanager
def microbatch(place: int | Tensor, count: int) -> Iterator[None]:
    """Restricts draws with `rows` in the `with` block to the `place`-th of `count` equal parts of a learner's
    batch."""
    before = _microbatch.place, _microbatch.count
    _microbatch.place, _microbatch.count = place, count
    try:
        yield
    finally:
        _microbatch.place, _microbatch.count = before


def _own(draw: Callable[[Tensor, list[int]], Tensor], seed: Rows, shape: Any) -> Tensor:
    """The rows of this learner and microbatch, of `draw(seed, shape)` for the whole batch."""
    count, size, rest = _microbatch.count, int(shape[0]), [int(each) for each in shape[1:]]
    own = replicas.own_rows(draw(seed.seed, [replicas.count() * count * size, *rest]))
    if count == 1:
        return own
    return tf.slice(own, [_microbatch.place * size] + [0] * len(rest), [size, *rest])


def key(seed: int) -> Tensor:
    """Returns the int32 [2] seed of a Python integer (the low 62 bits count)."""
    return tf.constant([seed & 0x7FFFFFFF, (seed >> 31) & 0x7FFFFFFF], tf.int32)


def fold_in(seed: Any, data: Any) -> Any:
    """Makes a new seed from `seed` and an integer (Python int or int32 / int64 scalar tensor)."""
    if isinstance(seed, NoiseTape):
        return seed
    if isinstance(seed, Rows):
        return Rows(fold_in(seed.seed, data))
    return tf.stack([_bits(seed, [], tf.int32), tf.cast(data, tf.int32)])


def split(seed: Any, n: int) -> list[Any]:
    """Makes `n` independent seeds of one."""
    if isinstance(seed, NoiseTape):
        return [seed] * n
    if isinstance(seed, Rows):
        return [Rows(each) for each in split(seed.seed, n)]
    return tf.unstack(_bits(seed, [n, 2], tf.int32))


def split_array(seed: Tensor, shape: list[int]) -> Tensor:
    """Makes independent seeds of one, as a tensor, int32 `[*shape, 2]`: one operation for a whole loop's
    seeds."""
    count = int(np.prod(shape))
    return tf.reshape(_bits(seed, [count, 2], tf.int32), [*shape, 2])


def uniform(seed: Any, shape: Any, minval: float = 0.0, maxval: float = 1.0) -> Tensor:
    """Draws uniform float32 numbers of `shape` in [minval, maxval); in other ranges than the unit one XLA may
    round differently."""
    if isinstance(seed, NoiseTape):
        return seed.draw("uniform", shape) * (maxval - minval) + minval
    if isinstance(seed, Rows):
        return _own(lambda *each: uniform(each[0], each[1], minval, maxval), seed, shape)
    # From the bits, since TensorFlow's kernel and XLA turn the same bits into different floats.
    bits = tf.bitwise.right_shift(_bits(seed, shape, tf.uint32), _uint(8))
    unit = tf.cast(bits, tf.float32) * 2.0**-24
    return unit if (minval, maxval) == (0.0, 1.0) else unit * (maxval - minval) + minval


def normal(seed: Any, shape: Any) -> Tensor:
    """Draws standard normal float32 numbers of `shape`."""
    if isinstance(seed, NoiseTape):
        return seed.draw("normal", shape)
    if isinstance(seed, Rows):
        return _own(normal, seed, shape)
    # Box and Muller 1958, for the same reason as in `uniform`.
    radius, angle = tf.unstack(uniform(seed, [2, *shape]))
    return tf.sqrt(-2.0 * tf.math.log(1.0 - radius)) * tf.cos(2.0 * np.pi * angle)


def gumbel(seed: Any, shape: Any) -> Tensor:
    """Draws standard Gumbel float32 numbers of `shape`: argmax(logits + gumbel) is a sample of the
    softmax."""
    tiny = float(np.finfo(np.float32).tiny)
    return -tf.math.log(-tf.math.log(tf.maximum(uniform(seed, shape), tiny)))


def dirichlet(seed: Tensor, among: Tensor, concentration: float) -> Tensor:
    """Draws for each row of `among`, bool [N, K], from the symmetric Dirichlet distribution over the places
    where it is true. Returns their shares, float32 [N, K], which sum to 1 in a row; 0 elsewhere.

    Gamma variables by Marsaglia and Tsang 2000 ("A simple method for generating gamma variables"), with 8
    tries each. A try fails at most once in 20, so all 8 fail once in 10^10 draws, which then take the middle.
    Logarithms are used, since with a small concentration the variables themselves would underflow to 0.
    """
    shape, tries = [int(size) for size in among.shape], 8
    d = concentration + 1.0 - 1.0 / 3.0  # of shape concentration + 1, which a power of a uniform turns back
    x = normal(fold_in(seed, 0), [tries, *shape])
    accept, power = tf.unstack(tf.math.log(1.0 - uniform(fold_in(seed, 1), [2, tries, *shape])))  # <= 0
    cube = (1.0 + x / math.sqrt(9.0 * d)) ** 3
    log_cube = tf.math.log(tf.maximum(cube, 1e-30))
    taken = (cube > 0.0) & (accept < 0.5 * x * x + d - d * cube + d * log_cube)
    log_gamma = tf.zeros(shape)
    for each in reversed(range(tries)):  # the first that is taken stays
        log_gamma = tf.where(taken[each], log_cube[each], log_gamma)
    log_gamma += power[0] / concentration
    return tf.where(among, tf.nn.softmax(tf.where(among, log_gamma, -1e9)), 0.0)


def randint(seed: Any, shape: Any, maxval: Any) -> Tensor:
    """Draws int32 numbers of `shape`, uniform over [0, maxval); `maxval`: an int or an int32 scalar
    tensor."""
    if isinstance(seed, NoiseTape):
        return seed.draw("randint", shape, int(maxval))
    if isinstance(seed, Rows):
        return _own(lambda *each: randint(each[0], each[1], maxval), seed, shape)
    key, counter = _key_counter(seed)
    return tf.raw_ops.StatelessRandomUniformIntV2(
        shape=shape, key=key, counter=counter, alg=_PHILOX, minval=0, maxval=maxval
    )


def places(seed: Any, mask: Tensor, count: int) -> Tensor:
    """Draws `count` positions of each row of mask [N, L] where the mask is 1, uniformly and independently,
    int32 [N, count]; the last position L - 1 if a row has none."""
    number = tf.cumsum(mask, -1)  # [N, L] how many there are up to each place
    before = tf.floor(uniform(seed, [mask.shape[0], count]) * number[:, -1:])  # the chosen one
    found = tf.reduce_sum(tf.cast(number[:, None, :] <= before[..., None], tf.int32), -1)
    return tf.minimum(found, mask.shape[1] - 1)


def permutation(seed: Tensor, n: int) -> Tensor:
    """Draws a random order of 0 .. n-1, int32 [n].

    For powers of two it is that of a keyed Feistel network (Luby and Rackoff 1988): a bijection computed
    element by element, where a sort of random keys costs XLA on a CPU more than the minibatch it shuffles.
    For other sizes random keys are sorted.
    """
    if n & (n - 1) or n < 4:
        return tf.argsort(uniform(seed, [n]), stable=True)
    rounds = 8
    keys = _bits(seed, [rounds], tf.uint32)
    right_bits = (n.bit_length() - 1) // 2
    left_bits = n.bit_length() - 1 - right_bits
    index = tf.range(n, dtype=tf.int32)
    index = tf.cast(index, tf.uint32)
    left = tf.bitwise.right_shift(index, _uint(right_bits))
    right = tf.bitwise.bitwise_and(index, _uint((1 << right_bits) - 1))
    for i in range(rounds):
        mixed = tf.bitwise.bitwise_and(_mix(right + keys[i]), _uint((1 << left_bits) - 1))
        left, right = right, tf.bitwise.bitwise_xor(left, mixed)
        left_bits, right_bits = right_bits, left_bits
    return tf.cast(tf.bitwise.bitwise_or(tf.bitwise.left_shift(left, _uint(right_bits)), right), tf.int32)


def _bits(seed: Tensor, shape: Any, dtype: tf.DType) -> Tensor:
    """Random bits as integers of a type and shape."""
    key, counter = _key_counter(seed)
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=dtype
    )


def _key_counter(seed: Tensor) -> tuple[Tensor, Tensor]:
    """Philox's key and counter for a seed, uint64 [1] and [2]: scrambled as in tf.random.stateless_uniform,
    but with a third of its operations, since a program traces dozens of these."""
    counter = tf.cast(seed, tf.uint64)
    mixed = tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=[2, 2], key=tf.constant([_SCRAMBLE], tf.uint64), counter=counter, alg=_PHILOX, dtype=tf.uint32
    )
    key, last = tf.split(tf.bitcast(mixed, tf.uint64), 2)
    return key, tf.concat([tf.zeros([1], tf.uint64), last], 0)


def _uint(value: int) -> Tensor:
    return tf.constant(value, tf.uint32)


def _mix(x: Tensor) -> Tensor:
    """A 32-bit integer hash with full avalanche (Wellons' "lowbias32")."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _uint(shift))) * _uint(factor)
    return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, _uint(16)))
