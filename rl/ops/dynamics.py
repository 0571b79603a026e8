"""Parts of dynamics that an ensemble of probabilistic networks learns. Pure functions.

Chua et al. 2018, "Deep reinforcement learning in a handful of trials using probabilistic dynamics models",
https://arxiv.org/abs/1805.12114: each network learns from a bootstrap sample of the transitions, and predicts
a mean and a variance. A transition's place in the memory decides which samples contain it, so that this need
not be stored.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from rl.types import Tensor

# Chances that a Poisson variable of mean 1 is at most 0, 1, ... 7; beyond that one is in a million.
_POISSON = np.cumsum([math.exp(-1.0) / math.factorial(k) for k in range(8)]).astype(np.float32)
_OWN_STREAM = 0x9E3779B9  # between the numbers of two streams: 2^32 over the golden ratio


def soft_clip(x: Tensor, low: float, high: float) -> Tensor:
    """Brings x softly between `low` and `high`, elementwise, with a gradient everywhere (Chua et al. 2018,
    appendix A.1)."""
    x = high - tf.math.softplus(high - x)
    return low + tf.math.softplus(x - low)


def gaussian_loss(mean: Tensor, log_variance: Tensor, target: Tensor) -> Tensor:
    """Returns minus the logarithm of a diagonal Gaussian's density at the target, without its constant (Chua
    et al. 2018, section 4): [..., K] each to [...]."""
    squares = tf.square(target - mean) * tf.exp(-log_variance)
    return 0.5 * tf.reduce_sum(squares + log_variance, -1)


def chance(place: Tensor, stream: int) -> Tensor:
    """Hashes each place to a number in [0, 1): float32 of the shape of `place`, int32. Numbers of different
    streams are practically independent. Uses MurmurHash3's last step."""
    x = tf.cast(place, tf.uint32) + tf.constant(stream * _OWN_STREAM % 2**32, tf.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint32)))
        x *= tf.constant(factor, tf.uint32)
    return tf.cast(tf.bitwise.right_shift(x, tf.constant(8, tf.uint32)), tf.float32) * 2.0**-24


def held_out(place: Tensor, share: float) -> Tensor:
    """Says which places of the memory, int32 [N], belong to the share that is held out from training: float32
    [N], 1 for these, else 0."""
    return tf.cast(chance(place, 0) < share, tf.float32)


def bootstrap(place: Tensor, members: int) -> Tensor:
    """Returns how often the transition at each place, int32 [N], is in each member's bootstrap sample:
    float32 [members, N].

    The counts are Poisson with mean 1, to which the counts of drawing n of n with replacement tend (Oza &
    Russell 2001, "Online bagging and boosting").
    """
    drawn = tf.stack([chance(place, 1 + member) for member in range(members)])  # [members, N]
    return tf.reduce_sum(tf.cast(drawn[..., None] >= _POISSON, tf.float32), -1)


def elites(errors: Tensor, count: int) -> Tensor:
    """Returns the `count` members that have the least errors [members], int32 [count], the best first."""
    return tf.math.top_k(-errors, count).indices
