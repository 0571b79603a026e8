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

import tensorflow as tf
from gymnasium import spaces

from rl.agents.actor_critic import SoftActorCritic
from rl.agents.algos.registry import register
from rl.agents.value import critic_loss
from rl.hparams.sac import SACHParams
from rl.models.continuous import Actor, BoxActions
from rl.ops import random
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor


@register
class SAC(SoftActorCritic[SACHParams]):
    """Soft actor-critic: bounded continuous actions."""

    action_spaces = (spaces.Box,)
    actions: BoxActions

    def build(self) -> None:
        self.actions = BoxActions(self.action_space, "sac")
        wanted = self.hparams.target_entropy
        self.target_entropy = -float(self.actions.size) if wanted is None else wanted
        super().build()

    def make_actor(self, name: str) -> Actor:
        return Actor(self.hparams, self.encoder, 2 * self.actions.size, self.initializers, name)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(distribution=self.actions.stochastic(self.network(observation)))

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns what the critics' values are to become, [N]."""
        distribution = self.actions.squashed_gaussian(self.network(batch.next_observation))
        next_action, log_prob = distribution.unit_sample(random.rows(seed))  # [N, K], [N]
        next_q_values = self.target_critic(batch.next_observation, next_action)[:, :, 0]  # [2, N]
        next_value = tf.reduce_min(next_q_values, 0) - self.temperature * log_prob
        return batch.reward + batch.discount * next_value

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critics' loss."""
        q_values = self.critic(batch.observation, self.actions.encode(batch.action))[:, :, 0]  # [2, N]
        return critic_loss(q_values, self.target(batch, seed), batch, 0.5)

    def q_value(self, observation: Nest, action: Tensor) -> Tensor:
        """Returns what the policy maximises beside its entropy, [N], of actions in [-1, 1], [N, K]."""
        return tf.reduce_min(self.critic(observation, action)[:, :, 0], 0)

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        distribution = self.actions.squashed_gaussian(self.network(batch.observation))
        action, log_prob = distribution.unit_sample(random.rows(seed))  # [N, K], [N]
        loss = tf.stop_gradient(self.temperature) * log_prob - self.q_value(batch.observation, action)
        metrics = {
            "policy_loss": masked_mean(loss, batch.mask),
            "entropy": -masked_mean(log_prob, batch.mask),
        }
        return loss * batch.mask, metrics, None

    def excess_entropy(self, metrics: dict[str, Tensor]) -> Tensor:
        return metrics["entropy"] - self.target_entropy
