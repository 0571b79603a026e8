"""BCQ: batch-constrained deep Q-learning, which chooses among actions like those of the data.

Fujimoto et al. 2019, "Off-policy deep reinforcement learning without exploration",
https://arxiv.org/abs/1812.02900 (algorithm 1). A conditional variational auto-encoder generates actions like
the data's, a perturbation changes each by at most `perturbation` so that the first critic's value rises, and
of `sampled_actions` such actions the best by the first critic is taken. Critics are fitted to
r + discount * max_i (lambda min_j Q_target_j(s', a_i) + (1 - lambda) max_j Q_target_j(s', a_i)) over ten
perturbed actions (equation 13).

Deviations from the paper:

1. All networks have the hidden layers `model.hidden`; the paper's auto-encoder has wider ones.
2. The divergence of the auto-encoder is weighed by 1/2, as in the authors' code, and its mean is over
   latent numbers.
3. Truncated episodes bootstrap from the last observation; only terminal states do not.
"""

from __future__ import annotations

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.agents.targets import copy_weights
from rl.agents.value import critic_loss
from rl.hparams.bcq import BCQHParams
from rl.models.bcq import BCQNetwork
from rl.models.continuous import BoxActions
from rl.ops import random
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor, Update


@register
class BCQ(Agent[BCQHParams]):
    """Batch-constrained Q-learning: bounded continuous actions, the best of some that are like the data's."""

    experience = "transition"
    action_spaces = (spaces.Box,)

    def build(self) -> None:
        """Makes the networks and one optimizer for each of their parts."""
        self.actions = BoxActions(self.action_space, "bcq")
        self.network = self.add_network("network", self.make_network("network"))
        self.target_network = self.add_network("target_network", self.make_network("target_network"))
        network = self.network
        generator = [*network.recognition.trainable_variables, *network.decoder.trainable_variables]
        self.add_optimizer("network", network.perturbation.trainable_variables)
        self.add_optimizer("critic", network.critic.trainable_variables, self.hparams.critic_lr)
        self.add_optimizer("generator", generator)
        copy_weights(network, self.target_network, 1.0)

    def make_network(self, name: str) -> BCQNetwork:
        """Returns an auto-encoder, a perturbation and critics."""
        options = self.actions.size, self.hparams.perturbation, self.initializers
        return BCQNetwork(self.hparams, self.encoder, *options, name)

    @property
    def evaluates_with_noise(self) -> bool:
        return True  # candidates are drawn

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(distribution=self.actions.certain(self.best_action(observation, seed)))

    def best_action(self, observation: Nest, seed: Tensor) -> Tensor:
        """Returns the codes [N, K] of the best perturbed candidates by the first critic."""
        draws, network = self.hparams.sampled_actions, self.network
        repeated, action = self.candidates(network, observation, draws, seed)
        q_values = tf.reshape(network.q_values(repeated, action, 1)[0], [-1, draws])  # [N, D]
        chosen = tf.one_hot(tf.argmax(q_values, -1), draws)  # [N, D]
        return tf.reduce_sum(tf.reshape(action, [-1, draws, self.actions.size]) * chosen[:, :, None], 1)

    def candidates(self, perturbing: BCQNetwork, observation: Nest, draws: int, seed: Tensor) -> Nest:
        """Returns `draws` actions for each observation, perturbed by a network: (observations, codes), [N D,
        ...]."""
        count = tf.nest.flatten(observation)[0].shape[0]
        normal = random.normal(random.rows(seed), [count, draws * self.network.latent])
        repeated = tf.nest.map_structure(lambda x: tf.repeat(x, draws, 0), observation)
        action = self.network.generated(repeated, tf.reshape(normal, [count * draws, self.network.latent]))
        return repeated, perturbing.perturbed(repeated, action)

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns what the critics' values are to become, [N]."""
        hparams, draws = self.hparams, self.hparams.target_actions
        repeated, action = self.candidates(self.target_network, batch.next_observation, draws, seed)
        q_values = self.target_network.q_values(repeated, action)  # [2, N D]
        share = hparams.minimum_weight
        mixed = share * tf.reduce_min(q_values, 0) + (1.0 - share) * tf.reduce_max(q_values, 0)
        return batch.reward + batch.discount * tf.reduce_max(tf.reshape(mixed, [-1, draws]), -1)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critics' loss."""
        q_values = self.network.q_values(batch.observation, self.actions.encode(batch.action))  # [2, N]
        return critic_loss(q_values, self.target(batch, seed), batch)

    def generator_loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the auto-encoder's loss: reconstruction error, and divergence of its latents from the
        normal prior."""
        action = self.actions.encode(batch.action)  # [N, K]
        mean, log_std = self.network.recognised(batch.observation, action)
        latent = mean + tf.exp(log_std) * random.normal(random.rows(seed), mean.shape)
        distance = tf.reduce_mean(tf.square(self.network.decoded(batch.observation, latent) - action), -1)
        divergence = -0.5 * tf.reduce_mean(1.0 + 2.0 * log_std - tf.square(mean) - tf.exp(2.0 * log_std), -1)
        loss = distance + 0.5 * divergence
        metrics = {
            "reconstruction_loss": masked_mean(distance, batch.mask),
            "divergence": masked_mean(divergence, batch.mask),
        }
        return loss * batch.mask, metrics, None

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the perturbation's loss."""
        _, action = self.candidates(self.network, batch.observation, 1, seed)
        loss = -self.network.q_values(batch.observation, action, 1)[0]
        return loss * batch.mask, {"policy_loss": masked_mean(loss, batch.mask)}, None

    def update(self, batch: Batch, seed: Tensor) -> Update:
        """Makes a step of the auto-encoder, of the critics, of the perturbation, and of the targets."""
        seeds = random.split(seed, 3)
        losses = {"generator": self.generator_loss, "critic": self.loss, "network": self.policy_loss}
        made = {
            name: self.gradient_step(batch, each, name, loss)
            for each, (name, loss) in zip(seeds, losses.items(), strict=True)
        }
        copy_weights(self.network, self.target_network, self.hparams.tau)
        generator, policy = made["generator"].metrics, made["network"].metrics
        kept = {name: generator[name] for name in ("reconstruction_loss", "divergence")}
        kept |= {"policy_loss": policy["policy_loss"], "policy_grad_norm": policy["grad_norm"]}
        return Update(made["critic"].metrics | kept, made["critic"].priorities)
