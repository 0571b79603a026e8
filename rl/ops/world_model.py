"""Parts of world models' losses. Pure functions, of DreamerV3 (Hafner et al. 2023, arXiv 2301.04104)."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.types import Tensor

UNIFORM_SHARE = 0.01  # of every categorical distribution: keeps its logarithms, and KLs, finite


def symlog(x: Tensor) -> Tensor:
    """Returns sign(x) log(|x| + 1): the identity near 0, a logarithm far from it (equation 9).
    Elementwise."""
    return tf.sign(x) * tf.math.log1p(tf.abs(x))


def symexp(x: Tensor) -> Tensor:
    """Returns sign(x) (exp(|x|) - 1), the inverse of `symlog`. Elementwise."""
    return tf.sign(x) * tf.math.expm1(tf.abs(x))


def bins(count: int, limit: float) -> np.ndarray:
    """Returns the atoms of `twohot`, evenly spaced from -limit to limit, in symlog units: float32 [count]."""
    return np.linspace(-limit, limit, count, dtype=np.float32)


def twohot(x: Tensor, atoms: Tensor) -> Tensor:
    """Returns the weights [..., K] of `atoms` [K], evenly spaced, whose mean is symlog(x), x [...]: at most
    two, of neighbours, are not 0 (equation 10). Beyond the first or last atom all weight is on it."""
    spacing = (atoms[-1] - atoms[0]) / (atoms.shape[0] - 1)
    place = tf.clip_by_value(symlog(x), atoms[0], atoms[-1])[..., None]
    return tf.maximum(1.0 - tf.abs(place - atoms) / spacing, 0.0)


def twohot_mean(logits: Tensor, atoms: Tensor) -> Tensor:
    """Returns the numbers [...] that logits [..., K] over `atoms` [K] predict: the symexp of the atoms'
    mean."""
    return symexp(tf.reduce_sum(tf.nn.softmax(logits) * atoms, -1))


def mixed_logits(logits: Tensor, share: float = UNIFORM_SHARE) -> Tensor:
    """Returns the log-probabilities of (1 - share) softmax(logits) + share * uniform, [..., K]."""
    return tf.math.log((1.0 - share) * tf.nn.softmax(logits) + share / logits.shape[-1])


def straight_through(log_probs: Tensor, noise: Tensor) -> Tensor:
    """Draws a sample as a one-hot row [..., K], with the gradient of the probabilities (section "World model
    learning", after Bengio et al. 2013, https://arxiv.org/abs/1308.3432).

    log_probs: [..., K], normalised. noise: standard Gumbel [..., K]; with zeros, the likeliest in place of a
    sample.
    """
    chosen = tf.one_hot(tf.argmax(log_probs + noise, -1, output_type=tf.int32), log_probs.shape[-1])
    probs = tf.exp(log_probs)
    return tf.stop_gradient(chosen) + (probs - tf.stop_gradient(probs))


def categorical_kl(p: Tensor, q: Tensor) -> Tensor:
    """Returns KL(p, q) in nats of G independent categoricals by their log-probabilities [..., G, K], summed:
    [...]."""
    return tf.reduce_sum(tf.exp(p) * (p - q), [-2, -1])


def balanced_kl(
    posterior: Tensor, prior: Tensor, dynamics: float, representation: float, free: float
) -> tuple[Tensor, Tensor]:
    """Computes the balanced KL loss, and the KL itself, [...] each, of log-probabilities [..., G, K]
    (equation 5).

    The loss is dynamics * max(free, KL(sg(posterior), prior)) + representation * max(free, KL(posterior,
    sg(prior))) with sg = no gradient: below `free` nats neither has a gradient.
    """
    kl = categorical_kl(tf.stop_gradient(posterior), prior)
    other = categorical_kl(posterior, tf.stop_gradient(prior))
    return dynamics * tf.maximum(kl, free) + representation * tf.maximum(other, free), kl


def percentiles(x: Tensor, shares: tuple[float, ...]) -> list[Tensor]:
    """Returns the quantiles `shares` of x, of any static shape, interpolated linearly as numpy.quantile:
    scalars."""
    ordered = tf.sort(tf.reshape(x, [-1]))
    found = []
    for share in shares:
        place = share * (ordered.shape[0] - 1)
        low = int(place)
        high = min(low + 1, ordered.shape[0] - 1)
        found.append(ordered[low] + (place - low) * (ordered[high] - ordered[low]))
    return found
