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
from gymnasium import spaces

from rl.agents.agent import Agent, copy_weights, update_target
from rl.agents.algos.registry import register
from rl.hparams.qrdqn import QRDQNHParams
from rl.models.networks import QNetwork
from rl.ops import distributional
from rl.ops.policy import masked_mean
from rl.types import Batch, Nest, PolicyOutput, Tensor


@register
class QRDQN(Agent):
    """Quantile-regression DQN: double, dueling, noisy, n-step and prioritized are switches."""

    experience = "transition"
    action_spaces = (spaces.Discrete,)
    hparams_type = QRDQNHParams

    def build(self) -> None:
        self.fraction = distributional.quantile_midpoints(self.hparams.quantiles)
        self.network = self.add_network("network", self.make_network("network"))
        self.target_network = self.add_network("target_network", self.make_network("target_network"))
        self.optimizer = self.add_optimizer("network", self.network.trainable_variables)
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")
        copy_weights(self.network, self.target_network, 1.0)

    def make_network(self, name: str) -> QNetwork:
        hparams = self.hparams
        sigma = hparams.noisy_sigma if hparams.noisy else None
        actions = int(self.action_space.n)
        return QNetwork(
            hparams,
            self.encoder,
            actions,
            self.initializers,
            hparams.quantiles,
            dueling=hparams.dueling,
            noisy_sigma=sigma,
            name=name,
        )

    def updates_per_iteration(self) -> int:
        return self.hparams.updates_per_iteration

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        quantiles = self.network(observation, training=training)  # [N, A, Q]
        return PolicyOutput(q_values=self.q_values(quantiles, observation))

    def q_values(self, quantiles: Tensor, observation: Nest) -> Tensor:
        """Means of the distributions of return: quantiles [N, A, Q] to [N, A]."""
        return self.encoder.mask_illegal(tf.reduce_mean(quantiles, -1), observation)

    def loss(self, batch: Batch, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        hparams = self.hparams
        self.resample_noise(seed)
        quantiles = self.network(batch.observation, training=True)  # [N, A, Q]
        next_quantiles = self.target_network(batch.next_observation, training=True)  # [N, A, Q]
        selector = next_quantiles
        if hparams.double:
            selector = self.network(batch.next_observation, training=True)
        next_action = tf.argmax(self.q_values(selector, batch.next_observation), -1, output_type=tf.int32)
        following = distributional.select(next_quantiles, next_action)  # [N, Q]
        target = tf.stop_gradient(batch.reward[:, None] + batch.discount[:, None] * following)  # [N, Q]
        chosen = distributional.select(quantiles, batch.action)  # [N, Q]
        loss = distributional.quantile_huber(chosen, self.fraction, target, hparams.huber_delta)
        mean = tf.reduce_mean(chosen, -1)  # [N]
        error = tf.reduce_mean(target, -1) - mean
        metrics = {
            "q_value": masked_mean(mean, batch.mask),
            "td_error": masked_mean(tf.abs(error), batch.mask),
        }
        return loss * batch.sample_weight * batch.mask, metrics, tf.abs(error)

    def after_update(self) -> None:
        self.updates.assign_add(1)
        update_target(self.network, self.target_network, self.updates, self.hparams)

    @property
    def variables(self) -> dict:
        return super().variables | {"updates": self.updates}
