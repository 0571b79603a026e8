"""Base of IQL and AWAC: critics, and advantage-weighted regression of the policy on the data's actions."""

from __future__ import annotations

from typing import TypeVar

import tensorflow as tf
from gymnasium import spaces

from rl.agents.actor_critic import ReplayActorCritic
from rl.agents.value import critic_loss
from rl.hparams.awac import AdvantageWeightedHParams
from rl.models.continuous import Critic, actions_of
from rl.models.policies import PolicyNetwork
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor

AnyWeighted = TypeVar("AnyWeighted", bound=AdvantageWeightedHParams)


class AdvantageWeighted(ReplayActorCritic[AnyWeighted]):
    """Base of policies that minimise -exp(`inverse_temperature` A(s, a)) log pi(a | s) on the data's actions.

    A subclass writes `advantage`, and `target` of the critics.
    """

    action_spaces = (spaces.Box, spaces.Discrete)
    target_policy = False
    policy_metrics = ("policy_loss", "log_prob", "advantage")

    def build(self) -> None:
        self.actions = actions_of(self.action_space, self.hparams.algo)
        super().build()

    def make_actor(self, name: str) -> PolicyNetwork:
        return PolicyNetwork(self.hparams, self.encoder, self.action_space, self.initializers, name)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(distribution=self.network(observation))

    def advantage(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns the advantage of the data's actions, [N]."""
        raise NotImplementedError

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns what the critics' values are to become, [N]."""
        raise NotImplementedError

    def least(self, critic: Critic, observation: Nest, action: Tensor) -> Tensor:
        """Returns the least of the critics' values of actions' codes [N, K], [N]."""
        return tf.reduce_min(critic(observation, action)[:, :, 0], 0)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critics' loss."""
        q_values = self.critic(batch.observation, self.actions.clipped_code(batch.action))[:, :, 0]  # [2, N]
        return critic_loss(q_values, self.target(batch, seed), batch, 0.5)

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams, mask = self.hparams, batch.mask
        advantage = tf.stop_gradient(self.advantage(batch, seed))
        weight = tf.minimum(tf.exp(hparams.inverse_temperature * advantage), hparams.max_weight)  # [N]
        log_prob = self.network(batch.observation).log_prob(batch.action)
        loss = -weight * log_prob
        metrics = {
            "policy_loss": masked_mean(loss, mask),
            "log_prob": masked_mean(log_prob, mask),
            "advantage": masked_mean(advantage, mask),
        }
        return loss * mask, metrics, None
