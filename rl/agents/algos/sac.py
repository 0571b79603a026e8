"""SAC: soft actor-critic with a learned temperature.

Haarnoja et al. 2018, "Soft actor-critic algorithms and applications", https://arxiv.org/abs/1812.05905;
the squashed Gaussian is from the first paper, https://arxiv.org/abs/1801.01290, appendix C. Two critics are
fitted to r + discount * (min_i Q_target_i(s', a') - temperature * log pi(a' | s')), the policy minimises
temperature * log pi(a | s) - min_i Q_i(s, a), and the temperature rises while the policy's entropy is below
its target. Evaluation acts by the squashed mean.

Deviations from the paper:

1. Entropy is measured on actions brought to [-1, 1], whatever the space's bounds, so that the target
   -dim(action) means the same everywhere.
2. The temperature is learned through its logarithm, with the loss -log(temperature) (log_prob + target), as
   the authors' code does.
3. The first `random_steps` actions are uniformly random.
4. Transitions may be n-step (without the entropy of the steps between) and prioritized.
5. Truncated episodes bootstrap from the last observation; only terminal states do not.
6. Collecting and learning alternate in blocks, as for DDPG.
"""

from __future__ import annotations

import math

import keras
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent, copy_weights
from rl.agents.algos.grad_comp.backprop import apply_gradients
from rl.agents.algos.registry import register
from rl.hparams.sac import SACHParams
from rl.models.continuous import Actor, BoxActions, Critic
from rl.ops import random
from rl.ops.policy import masked_mean, mean_of_all
from rl.types import Batch, Nest, PolicyOutput, Tensor, Update


@register
class SAC(Agent):
    """Soft actor-critic: bounded continuous actions."""

    experience = "transition"
    action_spaces = (spaces.Box,)
    hparams_type = SACHParams

    def build(self) -> None:
        hparams = self.hparams
        self.actions = BoxActions(self.action_space, "sac")
        wanted = hparams.target_entropy
        self.target_entropy = -float(self.actions.size) if wanted is None else wanted
        self.network = self.add_network("network", self.make_actor("network"))
        self.critic = self.add_network("critic", self.make_critic("critic"))
        self.target_critic = self.add_network("target_critic", self.make_critic("target_critic"))
        self.log_temperature = keras.Variable(math.log(hparams.temperature), name="log_temperature")
        self.add_optimizer("network", self.network.trainable_variables)
        self.add_optimizer("critic", self.critic.trainable_variables, hparams.critic_lr)
        self.add_optimizer("temperature", [self.log_temperature], hparams.temperature_lr)
        copy_weights(self.critic, self.target_critic, 1.0)

    def make_actor(self, name: str) -> Actor:
        return Actor(self.hparams, self.encoder, 2 * self.actions.size, self.initializers, name)

    def make_critic(self, name: str) -> Critic:
        return Critic(self.hparams, self.encoder, self.actions.size, self.initializers, count=2, name=name)

    def updates_per_iteration(self) -> int:
        return self.hparams.updates_per_iteration

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(distribution=self.actions.stochastic(self.network(observation)))

    @property
    def temperature(self) -> Tensor:
        return tf.exp(tf.convert_to_tensor(self.log_temperature))

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """What the critics' values are to become, [N]."""
        distribution = self.actions.squashed_gaussian(self.network(batch.next_observation))
        next_action, log_prob = distribution.unit_sample(random.rows(seed))  # [N, K], [N]
        next_q_values = self.target_critic(batch.next_observation, next_action)[:, :, 0]  # [2, N]
        next_value = tf.reduce_min(next_q_values, 0) - self.temperature * log_prob
        return batch.reward + batch.discount * next_value

    def loss(self, batch: Batch, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        """The critics'."""
        target = self.target(batch, seed)
        q_values = self.critic(batch.observation, self.actions.encode(batch.action))[:, :, 0]  # [2, N]
        error = tf.stop_gradient(target) - q_values
        loss = 0.5 * tf.reduce_sum(tf.square(error), 0)
        size = tf.reduce_mean(tf.abs(error), 0)  # [N]
        metrics = {
            "q_value": masked_mean(tf.reduce_mean(q_values, 0), batch.mask),
            "td_error": masked_mean(size, batch.mask),
        }
        return loss * batch.sample_weight * batch.mask, metrics, size

    def policy_loss(self, batch: Batch, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        distribution = self.actions.squashed_gaussian(self.network(batch.observation))
        action, log_prob = distribution.unit_sample(random.rows(seed))  # [N, K], [N]
        q_value = tf.reduce_min(self.critic(batch.observation, action)[:, :, 0], 0)  # [N]
        loss = tf.stop_gradient(self.temperature) * log_prob - q_value
        metrics = {
            "policy_loss": masked_mean(loss, batch.mask),
            "entropy": -masked_mean(log_prob, batch.mask),
        }
        return loss * batch.mask, metrics, None

    def update(self, batch: Batch, seed: Tensor) -> Update:
        critic_seed, policy_seed = random.split(seed, 2)
        critic = self.gradient_step(batch, critic_seed, "critic")
        policy = self.gradient_step(batch, policy_seed, "network", self.policy_loss).metrics
        kept = {"policy_loss": policy["policy_loss"], "policy_grad_norm": policy["grad_norm"]}
        kept |= {"entropy": policy["entropy"], "temperature": self.temperature}
        if self.hparams.learn_temperature:
            # The gradient of log_temperature * excess: one number, of which grad_comp could make no parts.
            excess = mean_of_all(policy["entropy"] - self.target_entropy, batch.mask)
            optimizer = self.optimizers["temperature"]
            apply_gradients([excess], [self.log_temperature], optimizer, self.hparams.max_grad_norm)
        self.after_update()
        return Update(critic.metrics | kept, critic.priorities)

    def after_update(self) -> None:
        copy_weights(self.critic, self.target_critic, self.hparams.tau)

    @property
    def variables(self) -> dict:
        return super().variables | {"log_temperature": self.log_temperature}
