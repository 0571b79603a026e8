"""V-MPO's improved policy: the better half of a batch's steps, weighted by their advantages.

Song et al. 2019, "V-MPO: On-policy maximum a posteriori policy optimization for discrete and continuous
control", https://arxiv.org/abs/1909.12238, sections 3 and 4.1. With several learners the batch is that of all
learners together: the half is chosen among all steps, and the weights are normalised over all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.parallel import replicas
from rl.types import Tensor


class Weights(NamedTuple):
    """The weights of a batch's steps, and their divergence."""

    weight: Tensor  # [N] psi times the number of steps that count, so that the mean is 1; 0 in the worse half
    kl: Tensor  # scalar: KL divergence of psi from equal weights of the better half, in nats


def best_half(advantage: Tensor, mask: Tensor) -> Tensor:
    """Returns which steps with mask 1 have an advantage of at least their median, bool [N].

    With an odd number of steps, the middle one is among them; so are all steps that tie with the worst one.

    Args:
        advantage: [N].
        mask: [N], 1 or 0.
    """
    counts = mask > 0.0
    ordered = tf.sort(replicas.gathered(tf.where(counts, advantage, tf.float32.max)))
    middle = tf.cast(replicas.total(tf.reduce_sum(mask)), tf.int32) // 2
    return counts & (advantage >= tf.gather(ordered, tf.minimum(middle, ordered.shape[0] - 1)))


def improved(advantage: Tensor, mask: Tensor, temperature: Tensor) -> Weights:
    """Returns psi(s, a), proportional to exp(advantage / temperature) over the better half (equation 3).

    The temperature's loss (equation 4) limits their divergence from equal weights: its derivative by the
    temperature is the limit minus that divergence. No gradient passes through the result.

    Args:
        advantage: [N].
        mask: [N], 1 or 0: which steps count.
        temperature: scalar above 0, eta.
    """
    # Exchanges between devices have no gradient, and the paper's losses need none here.
    advantage, temperature = tf.stop_gradient(advantage), tf.stop_gradient(temperature)
    chosen = best_half(advantage, mask)
    score = tf.where(chosen, advantage / temperature, tf.float32.min)  # [N]
    highest = -replicas.smallest(-tf.reduce_max(score))
    share = tf.where(chosen, tf.exp(score - highest), 0.0)
    total, number, counted = tf.unstack(
        replicas.total(tf.stack([tf.reduce_sum(x) for x in (share, tf.cast(chosen, tf.float32), mask)]))
    )
    psi = share / tf.maximum(total, 1e-30)  # [N], their sum is 1
    nats = tf.where(chosen, psi * tf.math.log(tf.maximum(psi * number, 1e-30)), 0.0)
    return Weights(psi * counted, replicas.total(tf.reduce_sum(nats)))
