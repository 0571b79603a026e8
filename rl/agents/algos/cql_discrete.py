"""Discrete CQL: conservative Q-learning on quantiles, for discrete actions.

Kumar et al. 2020, "Conservative Q-learning for offline reinforcement learning",
https://arxiv.org/abs/2006.04779, CQL(H): the loss of QR-DQN, as in the paper's Atari games, has the
additional term `conservative_weight` times log sum_a' exp Q(s, a') - Q(s, a), which lowers the values of
actions that are not in the data (equation 4). Q is the quantiles' mean; with `quantiles=1` it is DQN's value,
and the quantile loss is half of DQN's Huber loss.

Deviations from the paper:

1. Those of QR-DQN (`rl/agents/algos/qrdqn.py`) that are not about playing; `double` is on by default.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.qrdqn import QRDQN
from rl.agents.algos.registry import register
from rl.hparams.cql_discrete import CQLDiscreteHParams
from rl.ops import value
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Tensor


@register
class CQLDiscrete(QRDQN):
    """Conservative Q-learning: discrete actions, QR-DQN with low values for actions not in the data."""

    hparams: CQLDiscreteHParams
    hparams_type = CQLDiscreteHParams

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        loss, metrics, priorities = super().loss(batch, seed)
        quantiles = self.network(batch.observation, training=True)  # [N, A, Q], which `outputs` has made too
        q_values = self.q_values(quantiles, batch.observation)  # [N, A]
        gap = tf.reduce_logsumexp(q_values, -1) - value.select(q_values, batch.action)  # [N]
        penalty = self.hparams.conservative_weight * gap * batch.sample_weight * batch.mask
        return loss + penalty, metrics | {"conservative_gap": masked_mean(gap, batch.mask)}, priorities
