"""IQN: the return's quantile function itself is learned, at fractions that are drawn anew every time.

Dabney et al. 2018, "Implicit Quantile Networks for Distributional Reinforcement Learning",
https://arxiv.org/abs/1806.06923. The torso's features times a cosine embedding of a fraction (equation 4)
give each action's quantile of the return there. Every update draws fractions for the predictions, for the
targets and for choosing the next action; the loss is QR-DQN's at these, divided by kappa (equation 3).
Switches are DQN's.

Deviations from the paper:

1. The embedding multiplies the torso's output (`rl/models/quantile.py`), so that only the output layer (with
   `dueling`, the streams) is computed for every fraction; the paper has a hidden layer after the product.
2. Evaluation acts on evenly spaced fractions, which needs no random numbers; training draws them.
3. Risk-neutral: the paper's distortion measures beta are left out.
4. With `prioritized`, the priority is the absolute difference of the means, as for DQN.
5. Those of DQN (`rl/agents/algos/dqn.py`).
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.value import ValueAgent, replay_loss
from rl.hparams.iqn import IQNHParams
from rl.models.quantile import QuantileNetwork
from rl.ops import distributional, random
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor


@register
class IQN(ValueAgent[IQNHParams]):
    """Implicit quantile network: double, dueling, noisy, n-step and prioritized are switches."""

    def make_network(self, name: str) -> QuantileNetwork:
        hparams = self.hparams
        return QuantileNetwork(
            hparams,
            self.encoder,
            int(self.action_space.n),
            self.initializers,
            hparams.cosines,
            dueling=hparams.dueling,
            noisy_sigma=self.noisy_sigma,
            name=name,
        )

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        hparams = self.hparams
        count = tf.nest.flatten(observation)[0].shape[0]
        if training:
            fraction = random.uniform(seed, [count, hparams.policy_fractions])  # [N, F]
        else:
            even = distributional.quantile_midpoints(hparams.policy_fractions)
            fraction = tf.broadcast_to(even, [count, hparams.policy_fractions])
        quantiles = self.network(observation, fraction, training=training)  # [N, A, F]
        return PolicyOutput(q_values=tf.reduce_mean(quantiles, -1))

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams = self.hparams
        noise_seed, fraction_seed, target_seed, policy_seed = random.split(seed, 4)
        self.resample_noise(noise_seed)

        def drawn(each: Tensor, count: int) -> Tensor:
            return random.uniform(random.rows(each), [batch.reward.shape[0], count])

        fraction = drawn(fraction_seed, hparams.fractions)  # [N, F]
        target_fraction = drawn(target_seed, hparams.target_fractions)  # [N, F']
        policy_fraction = drawn(policy_seed, hparams.policy_fractions)  # [N, F'']
        quantiles = self.network(batch.observation, fraction, training=True)  # [N, A, F]
        next_quantiles = self.target_network(batch.next_observation, target_fraction, training=True)
        selector_network = self.network if hparams.double else self.target_network
        selector = selector_network(batch.next_observation, policy_fraction, training=True)  # [N, A, F'']
        next_action = tf.argmax(tf.reduce_mean(selector, -1), -1, output_type=tf.int32)
        following = distributional.select(next_quantiles, next_action)  # [N, F']
        target = tf.stop_gradient(batch.reward[:, None] + batch.discount[:, None] * following)  # [N, F']
        chosen = distributional.select(quantiles, batch.action)  # [N, F]
        loss = distributional.quantile_huber(chosen, fraction, target, hparams.huber_delta)
        loss /= hparams.huber_delta  # equation 3 divides by kappa where QR-DQN's does not
        q_value = tf.reduce_mean(chosen, -1)  # [N]
        error = tf.reduce_mean(target, -1) - q_value
        return replay_loss(loss, q_value, error, batch)
