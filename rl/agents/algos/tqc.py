"""TQC: truncated quantile critics, SAC with distributions of the return that forget their highest quantiles.

Kuznetsov et al. 2020, "Controlling Overestimation Bias with Truncated Mixture of Continuous Distributional
Quantile Critics", https://arxiv.org/abs/2005.04269. Each critic gives `quantiles` numbers, the return's
quantiles at the fractions (2 m - 1) / (2 quantiles). The next state's quantiles of all target critics are
pooled and sorted, and the largest `dropped_quantiles` of each critic on average are left out. The others are
targets:

    r + discount * (quantile - temperature * log pi(a' | s'))

to which every critic is fitted by quantile regression with a Huber loss. The policy minimises
temperature * log pi(a | s) less the mean of all quantiles, of which none is left out.

Deviations from the paper:

1. There are 2 critics by default, as in Stable-Baselines3, where the paper has 5, and they are as wide and
   deep as the policy.
2. With `prioritized`, the priority is the absolute difference of the means, averaged over the critics.
3. Those of SAC (`rl/agents/algos/sac.py`).
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.algos.sac import SAC
from rl.agents.value import replay_loss
from rl.hparams.tqc import TQCHParams
from rl.models.continuous import Critic
from rl.ops import distributional, random
from rl.types import Batch, Loss, Nest, Tensor


@register
class TQC(SAC):
    """Truncated quantile critics: bounded continuous actions."""

    hparams: TQCHParams
    hparams_type = TQCHParams

    def build(self) -> None:
        self.critics = self.hparams.critics
        self.fraction = distributional.quantile_midpoints(self.hparams.quantiles)
        super().build()

    def make_critic(self, name: str) -> Critic:
        """Returns critics of `quantiles` numbers each, C of them."""
        hparams, size = self.hparams, self.actions.size
        outputs = hparams.quantiles
        return Critic(hparams, self.encoder, size, self.initializers, self.critics, outputs, name=name)

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns what the critics' quantiles are to become: [N, C (quantiles - dropped_quantiles)],
        ascending."""
        hparams = self.hparams
        distribution = self.actions.squashed_gaussian(self.network(batch.next_observation))
        next_action, log_prob = distribution.unit_sample(random.rows(seed))  # [N, K], [N]
        following = self.target_critic(batch.next_observation, next_action)  # [C, N, Q]
        count = self.critics * (hparams.quantiles - hparams.dropped_quantiles)
        kept = distributional.lowest(following, count)  # [N, count]
        next_value = kept - (self.temperature * log_prob)[:, None]
        return batch.reward[:, None] + batch.discount[:, None] * next_value

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critics' loss."""
        hparams, count = self.hparams, batch.mask.shape[0]
        target = tf.stop_gradient(self.target(batch, seed))  # [N, K]
        quantiles = self.critic(batch.observation, self.actions.encode(batch.action))  # [C, N, Q]
        pairs = tf.reshape(quantiles, [self.critics * count, hparams.quantiles])
        same = tf.tile(target, [self.critics, 1])
        loss = distributional.quantile_huber(pairs, self.fraction, same, hparams.huber_delta)
        loss = tf.reduce_sum(tf.reshape(loss, [self.critics, count]), 0) / hparams.quantiles
        means = tf.reduce_mean(quantiles, -1)  # [C, N]
        size = tf.reduce_mean(tf.abs(tf.reduce_mean(target, -1) - means), 0)
        return replay_loss(loss, tf.reduce_mean(means, 0), size, batch)

    def q_value(self, observation: Nest, action: Tensor) -> Tensor:
        return tf.reduce_mean(self.critic(observation, action), [0, 2])
