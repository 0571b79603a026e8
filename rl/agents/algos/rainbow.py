"""Rainbow: six extensions of DQN in one agent.

Hessel et al. 2018, "Rainbow: Combining Improvements in Deep Reinforcement Learning",
https://arxiv.org/abs/1710.02298: C51 (`rl/agents/algos/c51.py`) with `double`, `dueling`, `noisy`, `n_step`
and `prioritized` on, by the KL divergence of target and prediction. Each stays a switch, which makes the
ablations of the paper's figure 3: `n_step=1`, and without `noisy` epsilon-greedy explores. Defaults are those
of its table 1.

Deviations from the paper:

1. `value_min` and `value_max` must be set to what returns can be, as for C51.
2. Those of DQN (`rl/agents/algos/dqn.py`).
"""

from __future__ import annotations

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent, copy_weights, update_target
from rl.agents.algos.registry import register
from rl.hparams.rainbow import RainbowHParams
from rl.models.networks import QNetwork
from rl.ops import distributional
from rl.ops.policy import masked_mean
from rl.types import Batch, Nest, PolicyOutput, Tensor


@register
class Rainbow(Agent):
    """Categorical DQN with double, dueling, noisy, n-step and prioritized on, replay by the KL divergence."""

    experience = "transition"
    action_spaces = (spaces.Discrete,)
    hparams_type = RainbowHParams

    def build(self) -> None:
        hparams = self.hparams
        self.atoms = distributional.support(hparams.value_min, hparams.value_max, hparams.atoms)
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
            hparams.atoms,
            dueling=hparams.dueling,
            noisy_sigma=sigma,
            name=name,
        )

    def updates_per_iteration(self) -> int:
        return self.hparams.updates_per_iteration

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        logits = self.network(observation, training=training)  # [N, A, K]
        return PolicyOutput(q_values=self.q_values(logits, observation))

    def q_values(self, logits: Tensor, observation: Nest) -> Tensor:
        """Means of the distributions of return: logits [N, A, K] to [N, A]."""
        return self.encoder.mask_illegal(distributional.expectation(logits, self.atoms), observation)

    def loss(self, batch: Batch, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        hparams = self.hparams
        self.resample_noise(seed)
        logits = self.network(batch.observation, training=True)  # [N, A, K]
        next_logits = self.target_network(batch.next_observation, training=True)  # [N, A, K]
        selector = next_logits
        if hparams.double:
            selector = self.network(batch.next_observation, training=True)
        next_action = tf.argmax(self.q_values(selector, batch.next_observation), -1, output_type=tf.int32)
        next_probabilities = tf.nn.softmax(distributional.select(next_logits, next_action))  # [N, K]
        target_atoms = batch.reward[:, None] + batch.discount[:, None] * self.atoms  # [N, K]
        target = distributional.categorical_projection(next_probabilities, target_atoms, self.atoms)
        target = tf.stop_gradient(target)  # [N, K]
        chosen = distributional.select(logits, batch.action)  # [N, K]
        loss = distributional.cross_entropy(target, chosen)
        divergence = distributional.kl_divergence(target, chosen)  # the loss less what no network can remove
        mean = distributional.expectation(chosen, self.atoms)  # [N]
        error = tf.reduce_sum(target * self.atoms, -1) - mean
        metrics = {
            "q_value": masked_mean(mean, batch.mask),
            "td_error": masked_mean(tf.abs(error), batch.mask),
            "kl_divergence": masked_mean(divergence, batch.mask),
        }
        return loss * batch.sample_weight * batch.mask, metrics, divergence

    def after_update(self) -> None:
        self.updates.assign_add(1)
        update_target(self.network, self.target_network, self.updates, self.hparams)

    @property
    def variables(self) -> dict:
        return super().variables | {"updates": self.updates}
