"""TD3+BC: TD3 whose policy is also pulled to the data's actions.

Fujimoto and Gu 2021, "A minimalist approach to offline reinforcement learning",
https://arxiv.org/abs/2106.06860: the policy maximises lambda Q(s, pi(s)) - (pi(s) - a)^2 (equation 3), with
lambda = alpha / mean |Q| over the batch (equation 5), and observations are normalised by the mean and the
deviation of the data (equation 6). All else is TD3's.

Deviations from the paper:

1. The mean of |Q| is over the values of the policy's actions, as in the authors' code; the paper has those of
   the data's.
2. What normalising adds to the deviation is that of `normalize_observation`, not 1e-3; what is beyond ten
   deviations is clipped to ten.
3. Those of TD3 (`rl/agents/algos/td3.py`) that are not about playing.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.algos.td3 import TD3
from rl.hparams.td3_bc import TD3BCHParams
from rl.ops.policy import masked_mean, mean_of_all
from rl.types import Batch, Loss, Tensor


@register
class TD3BC(TD3):
    """TD3 that stays near the data's actions: bounded continuous actions."""

    hparams: TD3BCHParams
    hparams_type = TD3BCHParams
    policy_metrics = ("policy_loss", "action_distance")

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        action = self.actions.greedy(self.network(batch.observation))  # [N, K]
        q_value = self.critic(batch.observation, action, members=1)[0, :, 0]
        size = mean_of_all(masked_mean(tf.abs(q_value), batch.mask), batch.mask)
        weight = tf.stop_gradient(self.hparams.alpha / size)
        distance = tf.reduce_mean(tf.square(action - self.actions.encode(batch.action)), -1)  # [N]
        loss = distance - weight * q_value
        metrics = {
            "policy_loss": masked_mean(loss, batch.mask),
            "action_distance": masked_mean(distance, batch.mask),
        }
        return loss * batch.mask, metrics, None
