"""Mixtures of normal distributions, one for each number that is predicted.

Bishop 1994, "Mixture density networks", as in Ha and Schmidhuber 2018, https://arxiv.org/abs/1803.10122
(section 2.2, appendix A.2). A mixture of K components is given by logits of their weights, means and
logarithms of their standard deviations, `[..., K]` each.
"""

from __future__ import annotations

import math

import tensorflow as tf

from rl.types import Tensor


def log_prob(x: Tensor, logits: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """Returns the logarithm of the mixtures' densities at x, log sum_k softmax(logits)_k N(x; mean_k, std_k):
    x [...] and parameters `[..., K]` to [...]."""
    standard = (x[..., None] - mean) * tf.exp(-log_std)
    each = -0.5 * tf.square(standard) - log_std - 0.5 * math.log(2.0 * math.pi)
    return tf.reduce_logsumexp(tf.nn.log_softmax(logits) + each, -1)


def sample(
    logits: Tensor, mean: Tensor, log_std: Tensor, gumbel: Tensor, normal: Tensor, temperature: float = 1.0
) -> Tensor:
    """Draws one number of each mixture, [...].

    Above a temperature of 1 what is unlikely comes more often: logits are divided by it, deviations
    multiplied by its root (section 4 of the paper, "temperature").

    Args:
        logits, mean, log_std: `[..., K]`.
        gumbel: standard Gumbel noise `[..., K]`, which chooses the component.
        normal: standard normal noise [...].
        temperature: tau, above 0.
    """
    chosen = tf.one_hot(tf.argmax(logits / temperature + gumbel, -1), logits.shape[-1])
    center, spread = (tf.reduce_sum(chosen * each, -1) for each in (mean, tf.exp(log_std)))
    return center + math.sqrt(temperature) * spread * normal


def standard_kl(mean: Tensor, log_std: Tensor) -> Tensor:
    """Returns KL(N(mean, std) || N(0, 1)) in nats, elementwise (Kingma and Welling 2014, appendix B)."""
    return 0.5 * (tf.square(mean) + tf.exp(2.0 * log_std) - 1.0) - log_std
