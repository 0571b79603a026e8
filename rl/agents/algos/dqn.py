"""DQN: deep Q-learning from a replay memory.

Mnih et al. 2015, "Human-level control through deep reinforcement learning",
https://doi.org/10.1038/nature14236. Action values are fitted to r + discount * max_a Q_target(s', a) on
replayed transitions, where discount is gamma, or 0 where the episode terminated. `double`, `dueling`,
`noisy`, `n_step` and `prioritized` are switches, each its paper's whole contribution, and off by default.

Deviations from the paper:

1. The target network may follow by `tau` at every `target_update_period` instead of being copied.
2. Huber loss by default where the paper clips the error's derivative: the same gradient within `huber_delta`.
3. With `noisy`, the layers after the torso are noisy, not the torso's own. Noise is drawn anew for every
   rollout, all environments together, and for every update; evaluation has the mean weights.
4. Truncated episodes bootstrap from the last observation; only terminal states do not.
5. Collecting and learning alternate in blocks: after each rollout come `updates_per_iteration` updates.
"""

from __future__ import annotations

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent, copy_weights, update_target
from rl.agents.algos.registry import register
from rl.hparams.dqn import DQNHParams
from rl.models.networks import QNetwork
from rl.ops import value
from rl.ops.policy import masked_mean
from rl.types import Batch, Nest, PolicyOutput, Tensor


@register
class DQN(Agent):
    """Deep Q-network: double, dueling, noisy, n-step and prioritized are switches."""

    experience = "transition"
    action_spaces = (spaces.Discrete,)
    hparams_type = DQNHParams

    def build(self) -> None:
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
            dueling=hparams.dueling,
            noisy_sigma=sigma,
            name=name,
        )

    def updates_per_iteration(self) -> int:
        return self.hparams.updates_per_iteration

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(q_values=self.network(observation, training=training))

    def loss(self, batch: Batch, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        hparams = self.hparams
        self.resample_noise(seed)
        q_values = self.network(batch.observation, training=True)  # [N, A]
        next_q_values = self.target_network(batch.next_observation, training=True)  # [N, A]
        if hparams.double:
            selector = self.network(batch.next_observation, training=True)
            target = value.double_q_learning_target(batch.reward, batch.discount, next_q_values, selector)
        else:
            target = value.q_learning_target(batch.reward, batch.discount, next_q_values)
        chosen = value.select(q_values, batch.action)  # [N]
        error = tf.stop_gradient(target) - chosen
        loss = value.huber(error, hparams.huber_delta) if hparams.loss == "huber" else tf.square(error)
        metrics = {
            "q_value": masked_mean(chosen, batch.mask),
            "td_error": masked_mean(tf.abs(error), batch.mask),
        }
        return loss * batch.sample_weight * batch.mask, metrics, tf.abs(error)

    def after_update(self) -> None:
        self.updates.assign_add(1)
        update_target(self.network, self.target_network, self.updates, self.hparams)

    @property
    def variables(self) -> dict:
        return super().variables | {"updates": self.updates}
