"""CQL: conservative Q-learning, SAC with low values for actions that are not in the data.

Kumar et al. 2020, "Conservative Q-learning for offline reinforcement learning",
https://arxiv.org/abs/2006.04779, CQL(H): the loss of each of SAC's critics has the additional term
`conservative_weight` times log sum_a' exp Q(s, a') - Q(s, a) (equation 4). The sum is estimated by importance
sampling (appendix F), with `sampled_actions` uniformly random actions, as many of the policy in s, and as
many of the policy in s', each divided by its density.

With `lagrange_threshold` tau the weight alpha is learned, min over Q and max over alpha >= 0 of
alpha (log sum exp Q - Q - tau) (appendix F): it falls while the gap is below tau, and grows above.

Deviations from the paper:

1. alpha is learned through its logarithm, from the mean of both critics' gaps, by steps of `critic_lr`.
2. Targets are without the policy's entropy, as in the authors' code (`deterministic_backup`).
3. The policy climbs its critics from the first update on; the authors' begins as behaviour cloning in some
   tasks.
4. Those of SAC (`rl/agents/algos/sac.py`) that are not about playing.

The authors' code has other units. Its squared error has no 1/2, which equation 4 and SAC here have: its
`min_q_weight` of 5 is a `conservative_weight` of 2.5. It does not divide the estimated sum by its number of
actions: its thresholds are larger than `lagrange_threshold` by log(3 `sampled_actions`).
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from rl.agents.algos.grad_comp.backprop import apply_gradients
from rl.agents.algos.registry import register
from rl.agents.algos.sac import SAC
from rl.hparams.cql import CQLHParams
from rl.ops import random
from rl.ops.policy import masked_mean, mean_of_all
from rl.types import Batch, Loss, Nest, Tensor, Update

MAX_WEIGHT = 1e6  # of the gap where it is learned, as in the authors' code


@register
class CQL(SAC):
    """Conservative Q-learning: bounded continuous actions."""

    hparams: CQLHParams
    hparams_type = CQLHParams

    def build(self) -> None:
        super().build()
        if self.hparams.lagrange_threshold is not None:
            start = math.log(self.hparams.conservative_weight)
            self.log_weight = keras.Variable(start, name="log_weight")
            self.add_optimizer("weight", [self.log_weight], self.hparams.critic_lr)

    @property
    def weight(self) -> Tensor | float:
        """The weight of the conservative gap, scalar."""
        if self.hparams.lagrange_threshold is None:
            return self.hparams.conservative_weight
        return tf.minimum(tf.exp(tf.convert_to_tensor(self.log_weight)), MAX_WEIGHT)

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        distribution = self.actions.squashed_gaussian(self.network(batch.next_observation))
        next_action, _ = distribution.unit_sample(random.rows(seed))  # [N, K]
        next_q_values = self.target_critic(batch.next_observation, next_action)[:, :, 0]  # [2, N]
        return batch.reward + batch.discount * tf.reduce_min(next_q_values, 0)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critics' loss."""
        target_seed, sample_seed = random.split(seed, 2)
        loss, metrics, priorities = super().loss(batch, target_seed)
        q_values = self.critic(batch.observation, self.actions.encode(batch.action))[:, :, 0]  # [2, N]
        gap = tf.reduce_sum(self.soft_maximum(batch, sample_seed) - q_values, 0)  # [N]
        allowed = self.critics * (self.hparams.lagrange_threshold or 0.0)
        penalty = tf.stop_gradient(self.weight) * (gap - allowed) * batch.sample_weight * batch.mask
        metrics |= {"conservative_gap": masked_mean(gap, batch.mask) / self.critics}
        return loss + penalty, metrics, priorities

    def update(self, batch: Batch, seed: Tensor) -> Update:
        update = super().update(batch, seed)
        threshold = self.hparams.lagrange_threshold
        if threshold is None:
            return update
        # The gradient of -alpha (gap - tau) by log alpha: one number, as the temperature's.
        gap = mean_of_all(update.metrics["conservative_gap"], batch.mask)
        weight, limit = self.weight, self.hparams.max_grad_norm
        apply_gradients([-weight * (gap - threshold)], [self.log_weight], self.optimizers["weight"], limit)
        return update._replace(metrics=update.metrics | {"conservative_weight": weight})

    @property
    def learned_beside(self) -> dict[str, Any]:
        """See `rl.agents.contracts.LearnsBeside`: the temperature and the weight, where they are learned."""
        return super().learned_beside | self._weight_variable

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self._weight_variable

    @property
    def _weight_variable(self) -> dict[str, Any]:
        return {} if self.hparams.lagrange_threshold is None else {"log_weight": self.log_weight}

    def soft_maximum(self, batch: Batch, seed: Tensor) -> Tensor:
        """Computes log sum_a exp Q(s, a) of each critic, estimated; the sum is an integral, [2, N]."""
        uniform_seed, now_seed, next_seed = random.split(seed, 3)
        count, draws, size = batch.mask.shape[0], self.hparams.sampled_actions, self.actions.size
        shape = [count, draws, size]
        uniform = random.uniform(random.rows(uniform_seed), shape) * 2.0 - 1.0
        density = tf.fill([count, draws], -size * math.log(2.0))
        now, now_density = self.drawn(batch.observation, now_seed)
        following, next_density = self.drawn(batch.next_observation, next_seed)
        action = tf.concat([uniform, now, following], 1)  # [N, 3 D, K]
        log_density = tf.concat([density, now_density, next_density], 1)  # [N, 3 D]
        repeated = tf.nest.map_structure(lambda x: tf.repeat(x, 3 * draws, 0), batch.observation)
        q_values = self.critic(repeated, tf.reshape(action, [count * 3 * draws, size]))
        q_values = tf.reshape(q_values, [self.critics, count, 3 * draws])
        return tf.reduce_logsumexp(q_values - log_density, -1) - math.log(3.0 * draws)

    def drawn(self, observation: Nest, seed: Tensor) -> tuple[Tensor, Tensor]:
        """Returns `sampled_actions` of the policy's for each observation, and their log densities, without
        gradient: [N, D, K] and [N, D]."""
        draws = self.hparams.sampled_actions
        output = tf.repeat(tf.stop_gradient(self.network(observation)), draws, 0)  # [N D, 2 K]
        action, log_prob = self.actions.squashed_gaussian(output).unit_sample(random.rows(seed))
        return tf.reshape(action, [-1, draws, self.actions.size]), tf.reshape(log_prob, [-1, draws])
