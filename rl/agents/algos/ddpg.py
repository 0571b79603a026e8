"""DDPG: deep deterministic policy gradient.

Lillicrap et al. 2016, "Continuous control with deep reinforcement learning",
https://arxiv.org/abs/1509.02971. A critic is fitted to r + discount * Q_target(s', mu_target(s')) on replayed
transitions, and the policy mu minimises -Q(s, mu(s)); both targets follow by `tau`. The policy's output goes
through tanh to the space's bounds, and the critic sees actions brought to [-1, 1].

Discrete actions as in MADDPG, Lowe et al. 2017, https://arxiv.org/abs/1706.02275: the critic sees one-hot
actions, the actor gives logits, and the gradient passes through a straight-through Gumbel-softmax sample
(Jang et al. 2017, https://arxiv.org/abs/1611.01144). There the critic is linear in the action: what it says
between one-hot actions would be invented otherwise. The mean square of the logits, times `logit_penalty`, is
added to the actor's loss; the authors' code has 0.001 there, not 0.01.

Deviations from the 2016 paper:

1. Gaussian noise by default, as in TD3; the paper's Ornstein-Uhlenbeck process is `act_select=ou_noise`.
2. The first `random_steps` actions are uniformly random.
3. The critic sees the action from its first layer on, the paper's from the second.
4. No batch normalisation (`normalize_observation` standardises by running statistics), and no weight decay
   but by `optimizer=adamw`.
5. Transitions may be n-step and prioritized (`n_step`, `prioritized`: by absolute TD error).
6. Truncated episodes bootstrap from the last observation; only terminal states do not.
7. Collecting and learning alternate in blocks: after each rollout come `updates_per_iteration` updates.
"""

from __future__ import annotations

from gymnasium import spaces

from rl.agents.actor_critic import ReplayActorCritic
from rl.agents.algos.registry import register
from rl.agents.value import critic_loss
from rl.hparams.ddpg import DDPGHParams
from rl.models.continuous import actions_of
from rl.ops import random
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor


@register
class DDPG(ReplayActorCritic[DDPGHParams]):
    """Deep deterministic policy gradient: bounded continuous actions, and discrete ones."""

    action_spaces = (spaces.Box, spaces.Discrete)
    critics = 1

    def build(self) -> None:
        self.actions = actions_of(self.action_space, "ddpg")
        super().build()

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(distribution=self.actions.deterministic(self.network(observation)))

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns what the critic's value is to become, [N]."""
        next_action = self.actions.greedy(self.target_network(batch.next_observation))  # [N, K]
        next_q_value = self.target_critic(batch.next_observation, next_action)[0, :, 0]  # [N]
        return batch.reward + batch.discount * next_q_value

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critic's loss."""
        q_values = self.critic(batch.observation, self.actions.encode(batch.action))[:, :, 0]  # [1, N]
        return critic_loss(q_values, self.target(batch, seed), batch)

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams = self.hparams
        output = self.network(batch.observation)  # [N, K]
        action = self.actions.relaxed(output, random.rows(seed), hparams.gumbel_temperature)
        loss = -self.critic(batch.observation, action)[0, :, 0]
        loss += hparams.logit_penalty * self.actions.penalty(output)
        return loss * batch.mask, {"policy_loss": masked_mean(loss, batch.mask)}, None
