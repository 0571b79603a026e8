"""QR-DQN: quantiles of the return in place of its mean.

Dabney et al. 2018, "Distributional Reinforcement Learning with Quantile Regression",
https://arxiv.org/abs/1710.10044. An action has `quantiles` numbers, the return's quantiles at the fractions
(2 i + 1) / (2 quantiles). Targets are r + discount * quantile of the next state's best action; the loss is
quantile regression with a Huber loss (equations 9 and 10), summed over predictions and averaged over targets.
Actions are chosen by the quantiles' mean. Switches are DQN's.

Deviations from the paper:

1. `quantiles` is 32 by default where the paper's Atari agent has 200: small problems need no more.
2. With `prioritized`, the priority is the absolute difference of the means, as for DQN.
3. Those of DQN (`rl/agents/algos/dqn.py`).
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.value import ValueAgent, replay_loss
from rl.hparams.qrdqn import QRDQNHParams
from rl.ops import distributional
from rl.types import Batch, Loss, Nest, Tensor


@register
class QRDQN(ValueAgent[QRDQNHParams]):
    """Quantile-regression DQN: double, dueling, noisy, n-step and prioritized are switches."""

    def build(self) -> None:
        self.fraction = distributional.quantile_midpoints(self.hparams.quantiles)
        self.values_per_action = self.hparams.quantiles
        super().build()

    def q_values(self, quantiles: Tensor, observation: Nest) -> Tensor:
        """Returns means of the distributions of return: quantiles [N, A, Q] to [N, A]."""
        return self.encoder.mask_illegal(tf.reduce_mean(quantiles, -1), observation)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams = self.hparams
        quantiles, next_quantiles, next_action = self.outputs(batch, seed)  # [N, A, Q] twice, [N]
        following = distributional.select(next_quantiles, next_action)  # [N, Q]
        target = batch.reward[:, None] + batch.discount[:, None] * following  # [N, Q]
        chosen = distributional.select(quantiles, batch.action)  # [N, Q]
        loss = distributional.quantile_huber(chosen, self.fraction, target, hparams.huber_delta)
        q_value = tf.reduce_mean(chosen, -1)  # [N]
        error = tf.reduce_mean(target, -1) - q_value
        return replay_loss(loss, q_value, error, batch)
