"""ReBRAC: TD3+BC with design choices of its successors, and penalties of policy and critics apart.

Tarasov et al. 2023, "Revisiting the minimalist approach to offline reinforcement learning",
https://arxiv.org/abs/2305.09836: the critics' target is r + discount * (min_i Q_target_i(s', a') -
`critic_penalty` |a' - a'_data|^2), with a' of the target policy and a'_data the data's next action
(equation 6), and the policy minimises `policy_penalty` |pi(s) - a|^2 - lambda min_i Q_i(s, pi(s)), with
lambda = 1 / mean |Q| over the batch (equation 7). Critics have layer normalisation, networks three hidden
layers, and batches are large.

Deviations from the paper:

1. The last step of a truncated episode has no next action in the data: its own stands for that.
2. Critics are normalised before the activation of a layer; the authors' code does so after it.
3. Those of TD3 (`rl/agents/algos/td3.py`) that are not about playing.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.algos.td3 import TD3
from rl.errors import UsageError
from rl.hparams.rebrac import ReBRACHParams
from rl.models.continuous import Critic
from rl.ops.policy import masked_mean, mean_of_all
from rl.types import Batch, Loss, Nest, Tensor


@register
class ReBRAC(TD3):
    """TD3 whose policy and target stay near the data's actions: bounded continuous actions."""

    hparams: ReBRACHParams
    hparams_type = ReBRACHParams
    policy_metrics = ("policy_loss", "action_distance")

    def build(self) -> None:
        if not self.hparams.offline:
            raise UsageError("rebrac needs to know what was done next, as data alone do: take memory=dataset")
        super().build()

    def make_critic(self, name: str) -> Critic:
        model = self.hparams.model.model_copy(update={"layer_norm": self.hparams.critic_layer_norm})
        hparams = self.hparams.model_copy(update={"model": model})
        size = self.actions.size
        return Critic(hparams, self.encoder, size, self.initializers, count=self.critics, name=name)

    def distance(self, code: Tensor, action: Nest) -> Tensor:
        """Returns the squared distance of codes [N, K] from the environment's actions, [N]."""
        return tf.reduce_sum(tf.square(code - self.actions.encode(action)), -1)

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        next_action = self.target_action(batch, seed)  # [N, K]
        next_q_values = self.target_critic(batch.next_observation, next_action)[:, :, 0]  # [2, N]
        penalty = self.hparams.critic_penalty * self.distance(next_action, batch.next_action)
        return batch.reward + batch.discount * (tf.reduce_min(next_q_values, 0) - penalty)

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        action = self.actions.greedy(self.network(batch.observation))  # [N, K]
        q_value = tf.reduce_min(self.critic(batch.observation, action)[:, :, 0], 0)  # [N]
        size = mean_of_all(masked_mean(tf.abs(q_value), batch.mask), batch.mask)
        distance = self.distance(action, batch.action)
        loss = self.hparams.policy_penalty * distance - q_value * tf.stop_gradient(1.0 / size)
        metrics = {
            "policy_loss": masked_mean(loss, batch.mask),
            "action_distance": masked_mean(distance, batch.mask),
        }
        return loss * batch.mask, metrics, None
