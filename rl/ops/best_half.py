"""V-MPO's improved policy: the better half of a batch's steps, weighted by their advantages.

Song et al. 2019, "V-MPO: On-policy maximum a posteriori policy optimization for discrete and continuous
control", https://arxiv.org/abs/1909.12238, sections 3 and 4.1. With several learners the batch is what all of
them have: the half is of all their steps, and the weights are normalised over all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.parallel import replicas
from rl.types import Tensor


class Weights(NamedTuple):
    """Of the steps of a batch."""

    weight: Tensor  # [N] psi times the number of steps that count: their mean is 1; 0 in the worse half
    kl: Tensor  # scalar: nats from equal weights of the better half to psi


def best_half(advantage: Tensor, mask: Tensor) -> Tensor:
    """Returns the steps whose advantage is not below the median, bool [N], among those with mask 1.

    Of an odd number, the step in the middle belongs to them; steps as good as the worst of them do too.

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

    Its divergence from equal weights is what the temperature's loss (equation 4) keeps to a limit: that loss'
    derivative by the temperature is the limit less the divergence.

    Args:
        advantage: [N].
        mask: [N], 1 or 0: which steps count.
        temperature: scalar above 0, eta.
    """
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
