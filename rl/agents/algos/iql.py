"""IQL: implicit Q-learning, which never asks for the value of an action that is not in the data.

Kostrikov et al. 2022, "Offline reinforcement learning with implicit Q-learning",
https://arxiv.org/abs/2110.06169. A value V is fitted to an upper expectile of min_i Q_target_i(s, a) over the
data's actions (equation 5), the critics to r + discount * V(s') (equation 6), and the policy minimises
-exp(beta (min_i Q_target_i(s, a) - V(s))) log pi(a | s), weights clipped at 100 (equation 7).

Deviations from the paper:

1. The learning rate of the policy follows `lr_schedule` like all others; the authors' falls by a cosine.
2. Rewards of locomotion are scaled by `return_span`, as the authors' code does.
3. Deviations of the policy lie between e^-5 and e^2, in half ranges.
4. Discrete actions too, for which critics are linear in the action's one-hot code.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.advantage_weighted import AdvantageWeighted
from rl.agents.algos.registry import register
from rl.hparams.iql import IQLHParams
from rl.models.continuous import Critic
from rl.ops import random
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, Tensor, Update


@register
class IQL(AdvantageWeighted[IQLHParams]):
    """Implicit Q-learning: bounded continuous actions, and discrete ones."""

    def build(self) -> None:
        super().build()
        self.value = self.add_network(
            "value", Critic(self.hparams, self.encoder, 0, self.initializers, name="value")
        )
        self.add_optimizer("value", self.value.trainable_variables, self.hparams.critic_lr)

    def value_of(self, observation: Nest) -> Tensor:
        """Returns the values V of observations, [N]."""
        return self.value(observation)[0, :, 0]

    def advantage(self, batch: Batch, seed: Tensor) -> Tensor:
        action = self.actions.clipped_code(batch.action)
        return self.least(self.target_critic, batch.observation, action) - self.value_of(batch.observation)

    def value_loss(self, batch: Batch, seed: Tensor) -> Loss:
        error = self.advantage(batch, seed)  # the target critics have no gradient here
        weight = tf.where(error > 0.0, self.hparams.expectile, 1.0 - self.hparams.expectile)
        loss = weight * tf.square(error)
        return loss * batch.mask, {"value_loss": masked_mean(loss, batch.mask)}, None

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        return batch.reward + batch.discount * self.value_of(batch.next_observation)

    def update(self, batch: Batch, seed: Tensor) -> Update:
        """Makes a step of the value, then those of policy and critics."""
        value_seed, rest = random.split(seed, 2)
        value = self.gradient_step(batch, value_seed, "value", self.value_loss).metrics
        kept = {"value_loss": value["value_loss"], "value_grad_norm": value["grad_norm"]}
        update = super().update(batch, rest)
        return update._replace(metrics=update.metrics | kept)
