"""TD3: twin delayed deep deterministic policy gradient.

Fujimoto et al. 2018, "Addressing function approximation error in actor-critic methods",
https://arxiv.org/abs/1802.09477: DDPG with two critics fitted to r + discount * min_i Q_target_i(s', a')
(section 4.2), a policy, which climbs the first critic, and target networks that are updated less often (5.2),
and clipped noise on the target's action a' (5.3).

Deviations from the paper:

1. The first `random_steps` actions are uniformly random in every environment, as the authors' code does where
   the paper has an exploratory policy.
2. Transitions may be n-step and prioritized (`n_step`, `prioritized`: by the mean absolute TD error).
3. Truncated episodes bootstrap from the last observation; only terminal states do not.
4. Collecting and learning alternate in blocks, as for DDPG.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces

from rl.agents.actor_critic import ReplayActorCritic
from rl.agents.algos.registry import register
from rl.agents.value import critic_loss
from rl.hparams.td3 import TD3HParams
from rl.models.continuous import BoxActions
from rl.ops import random
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor, Update


@register
class TD3(ReplayActorCritic[TD3HParams]):
    """Twin delayed deep deterministic policy gradient: bounded continuous actions."""

    action_spaces = (spaces.Box,)

    def build(self) -> None:
        self.actions = BoxActions(self.action_space, "td3")
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")
        super().build()

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(distribution=self.actions.deterministic(self.network(observation)))

    def target_action(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns the target policy's next action with clipped noise, [N, K]."""
        hparams = self.hparams
        next_action = self.actions.greedy(self.target_network(batch.next_observation))  # [N, K]
        noise = hparams.target_noise * random.normal(random.rows(seed), next_action.shape)
        noise = tf.clip_by_value(noise, -hparams.target_noise_clip, hparams.target_noise_clip)
        return tf.clip_by_value(next_action + noise, -1.0, 1.0)

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns what the critics' values are to become, [N]."""
        next_action = self.target_action(batch, seed)
        next_q_values = self.target_critic(batch.next_observation, next_action)[:, :, 0]  # [2, N]
        return batch.reward + batch.discount * tf.reduce_min(next_q_values, 0)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critics' loss."""
        q_values = self.critic(batch.observation, self.actions.encode(batch.action))[:, :, 0]  # [2, N]
        return critic_loss(q_values, self.target(batch, seed), batch)

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        action = self.actions.greedy(self.network(batch.observation))  # [N, K]
        loss = -self.critic(batch.observation, action, members=1)[0, :, 0]
        return loss * batch.mask, {"policy_loss": masked_mean(loss, batch.mask)}, None

    def update(self, batch: Batch, seed: Tensor) -> Update:
        critic_seed, policy_seed = random.split(seed, 2)
        critic = self.gradient_step(batch, critic_seed, "critic")
        period = self.hparams.policy_update_period

        def delayed() -> dict[str, Tensor]:
            kept = self.policy_step(batch, policy_seed)
            self.after_update()
            return {name: value * float(period) for name, value in kept.items()}

        def nothing() -> dict[str, Tensor]:  # with the factor above, means over updates are right
            return dict.fromkeys((*self.policy_metrics, "policy_grad_norm"), tf.constant(0.0))

        self.updates.assign_add(1)
        kept = tf.cond(self.updates % period == 0, delayed, nothing)
        return Update(critic.metrics | kept, critic.priorities)

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | {"updates": self.updates}
