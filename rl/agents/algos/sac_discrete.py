"""SAC for discrete actions.

Christodoulou 2019, "Soft actor-critic for discrete action settings", https://arxiv.org/abs/1910.07207: a
categorical policy, critics that value every action, and expectations over actions in place of samples: the
next value is sum_a pi(a | s') (min_i Q_target_i(s', a) - temperature * log pi(a | s')), the policy's loss
sum_a pi(a | s) (temperature * log pi(a | s) - min_i Q_i(s, a)). Evaluation takes the likeliest action.

Deviations from the paper:

1. The target entropy is `target_entropy_scale` (0.98 in the paper, which keeps the policy nearly uniform)
   times the entropy of the uniform choice among the actions that are legal in each state.
2. The temperature is learned through its logarithm, with the loss log(temperature) (entropy - target), as the
   author's code does.
3. The first `random_steps` actions are uniformly random among the legal ones.
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
from rl.hparams.sac_discrete import SACDiscreteHParams
from rl.models.continuous import Actor, Critic
from rl.ops import value
from rl.ops.distributions import Categorical
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor


@register
class SACDiscrete(SoftActorCritic[SACDiscreteHParams]):
    """Soft actor-critic for discrete actions."""

    action_spaces = (spaces.Discrete,)

    def make_actor(self, name: str) -> Actor:
        return Actor(self.hparams, self.encoder, int(self.action_space.n), self.initializers, name)

    def make_critic(self, name: str) -> Critic:
        actions = int(self.action_space.n)
        return Critic(self.hparams, self.encoder, 0, self.initializers, count=2, outputs=actions, name=name)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(distribution=Categorical(self.network(observation)))

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns what the critics' values of the actions taken are to become, [N]."""
        log_probs = tf.nn.log_softmax(self.network(batch.next_observation))  # [N, A]
        next_q_values = tf.reduce_min(self.target_critic(batch.next_observation), 0)  # [N, A]
        soft = next_q_values - self.temperature * log_probs
        next_value = tf.reduce_sum(tf.exp(log_probs) * soft, -1)  # [N]
        return batch.reward + batch.discount * next_value

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critics' loss."""
        q_values = value.select(self.critic(batch.observation), batch.action)  # [2, N]
        return critic_loss(q_values, self.target(batch, seed), batch, 0.5)

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        distribution = Categorical(self.network(batch.observation))
        q_values = tf.stop_gradient(tf.reduce_min(self.critic(batch.observation), 0))  # [N, A]
        entropy = distribution.entropy()  # [N]
        expected = tf.reduce_sum(tf.exp(distribution.log_probs) * q_values, -1)
        loss = -tf.stop_gradient(self.temperature) * entropy - expected
        metrics = {
            "policy_loss": masked_mean(loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
            "target_entropy": masked_mean(self.target_entropy(batch.observation, entropy), batch.mask),
        }
        return loss * batch.mask, metrics, None

    def target_entropy(self, observation: Nest, entropy: Tensor) -> Tensor:
        """Returns what `entropy` [N] is held at: a share of the uniform choice's among the legal actions."""
        legal = self.encoder.action_mask(observation)
        count = float(self.action_space.n) + tf.zeros_like(entropy)
        if legal is not None:
            count = tf.maximum(tf.reduce_sum(tf.cast(legal, tf.float32), -1), 1.0)
        return self.hparams.target_entropy_scale * tf.math.log(count)

    def excess_entropy(self, metrics: dict[str, Tensor]) -> Tensor:
        return metrics["entropy"] - metrics["target_entropy"]
