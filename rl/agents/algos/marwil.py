"""MARWIL: monotonic advantage re-weighted imitation learning, BC that prefers what went better than usual.

Wang et al. 2018, "Exponentially weighted imitation learning for batched historical data",
https://papers.nips.cc/paper/7866-exponentially-weighted-imitation-learning-for-batched-historical-data
(algorithm 1): a value V is fitted to the returns R of the data, and the policy minimises
-exp(beta (R - V(s)) / c) log pi(a | s), where c^2 is the running mean of the squared advantages R - V. With
`beta` 0 it is BC.

Deviations from the paper:

1. R is the return of `n_step` steps, by default of all to the episode's end, and the value after them where
   the episode was cut.
2. Policy and value have networks and optimizers of their own, so that the value does not disturb the policy.
3. The running mean is that of all updates so far until it has the rate `advantage_rate`, and has no value to
   begin with that would have to be forgotten.
4. Weights are clipped at `max_weight`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.cloning import Cloning
from rl.hparams.marwil import MARWILHParams
from rl.models.continuous import Critic
from rl.ops import random
from rl.ops.policy import masked_mean, mean_of_all
from rl.types import Batch, Loss, Tensor, Update


@register
class MARWIL(Cloning[MARWILHParams]):
    """Imitation of the data's actions, weighted by the exponential of their advantage."""

    def build(self) -> None:
        super().build()
        critic = Critic(self.hparams, self.encoder, 0, self.initializers, name="value")
        self.value = self.add_network("value", critic)
        self.add_optimizer("value", self.value.trainable_variables, self.hparams.value_lr)
        self.square_advantage = tf.Variable(0.0, trainable=False, name="square_advantage")  # c^2
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")

    def advantage(self, batch: Batch) -> Tensor:
        """Returns by how much the return is above the value, [N]."""
        following = self.value(batch.next_observation)[0, :, 0]
        target = batch.reward + batch.discount * tf.stop_gradient(following)
        return target - self.value(batch.observation)[0, :, 0]

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the policy's loss."""
        hparams = self.hparams
        scaled = tf.stop_gradient(self.advantage(batch)) * tf.math.rsqrt(self.square_advantage + 1e-8)
        weight = tf.minimum(tf.exp(hparams.beta * scaled), hparams.max_weight)  # [N]
        log_prob = self.network(batch.observation).log_prob(batch.action)
        metrics = {
            "log_prob": masked_mean(log_prob, batch.mask),
            "weight": masked_mean(weight, batch.mask),
        }
        return -weight * log_prob * batch.mask, metrics, None

    def value_loss(self, batch: Batch, seed: Tensor) -> Loss:
        loss = 0.5 * tf.square(self.advantage(batch))
        return loss * batch.mask, {"value_loss": masked_mean(loss, batch.mask)}, None

    def update(self, batch: Batch, seed: Tensor) -> Update:
        policy_seed, value_seed = random.split(seed, 2)
        self.updates.assign_add(1)
        square = masked_mean(tf.square(self.advantage(batch)), batch.mask)
        rate = tf.maximum(self.hparams.advantage_rate, 1.0 / tf.cast(self.updates, tf.float32))
        change = mean_of_all(square, batch.mask) - self.square_advantage
        self.square_advantage.assign_add(rate * change)
        policy = self.gradient_step(batch, policy_seed)
        value = self.gradient_step(batch, value_seed, "value", self.value_loss).metrics
        kept = {"value_loss": value["value_loss"], "value_grad_norm": value["grad_norm"]}
        scale = {"advantage_scale": tf.sqrt(self.square_advantage)}
        return Update(policy.metrics | kept | scale)

    @property
    def variables(self) -> dict[str, Any]:
        own = {"square_advantage": self.square_advantage, "updates": self.updates}
        return super().variables | own
