"""DDPG: deep deterministic policy gradient.

Lillicrap et al. 2016, "Continuous control with deep reinforcement learning",
https://arxiv.org/abs/1509.02971. A critic is fitted to r + discount * Q_target(s', mu_target(s')) on replayed
transitions, and the policy mu minimises -Q(s, mu(s)); both targets follow by `tau`. The policy's output goes
through tanh to the space's bounds, and the critic sees actions brought to [-1, 1].

Discrete actions as in MADDPG, Lowe et al. 2017, https://arxiv.org/abs/1706.02275: the critic sees one-hot
actions, the actor gives logits, and the gradient passes through a straight-through Gumbel-softmax sample
(Jang et al. 2017, https://arxiv.org/abs/1611.01144). There the critic is linear in the action: what it says
between one-hot actions would be invented otherwise.

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

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent, copy_weights
from rl.agents.algos.registry import register
from rl.hparams.ddpg import DDPGHParams
from rl.models.continuous import Actor, BoxActions, Critic, DiscreteActions
from rl.ops import random
from rl.ops.policy import masked_mean
from rl.types import Batch, Nest, PolicyOutput, Tensor, Update


@register
class DDPG(Agent):
    """Deep deterministic policy gradient: bounded continuous actions, and discrete ones."""

    experience = "transition"
    action_spaces = (spaces.Box, spaces.Discrete)
    hparams_type = DDPGHParams

    def build(self) -> None:
        space = self.action_space
        self.discrete = isinstance(space, spaces.Discrete)
        self.actions = DiscreteActions(space) if self.discrete else BoxActions(space, "ddpg")
        self.network = self.add_network("network", self.make_actor("network"))
        self.target_network = self.add_network("target_network", self.make_actor("target_network"))
        self.critic = self.add_network("critic", self.make_critic("critic"))
        self.target_critic = self.add_network("target_critic", self.make_critic("target_critic"))
        self.add_optimizer("network", self.network.trainable_variables)
        self.add_optimizer("critic", self.critic.trainable_variables, self.hparams.critic_lr)
        copy_weights(self.network, self.target_network, 1.0)
        copy_weights(self.critic, self.target_critic, 1.0)

    def make_actor(self, name: str) -> Actor:
        return Actor(self.hparams, self.encoder, self.actions.size, self.initializers, name)

    def make_critic(self, name: str) -> Critic:
        size = self.actions.size
        return Critic(self.hparams, self.encoder, size, self.initializers, linear=self.discrete, name=name)

    def updates_per_iteration(self) -> int:
        return self.hparams.updates_per_iteration

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return PolicyOutput(distribution=self.actions.deterministic(self.network(observation)))

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """What the critic's value is to become, [N]."""
        next_action = self.actions.greedy(self.target_network(batch.next_observation))  # [N, K]
        next_q_value = self.target_critic(batch.next_observation, next_action)[0, :, 0]  # [N]
        return batch.reward + batch.discount * next_q_value

    def loss(self, batch: Batch, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        """The critic's."""
        target = self.target(batch, seed)
        q_values = self.critic(batch.observation, self.actions.encode(batch.action))[:, :, 0]  # [1, N]
        error = tf.stop_gradient(target) - q_values
        loss = tf.reduce_sum(tf.square(error), 0)
        size = tf.reduce_mean(tf.abs(error), 0)  # [N]
        metrics = {
            "q_value": masked_mean(tf.reduce_mean(q_values, 0), batch.mask),
            "td_error": masked_mean(size, batch.mask),
        }
        return loss * batch.sample_weight * batch.mask, metrics, size

    def policy_loss(self, batch: Batch, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        hparams = self.hparams
        output = self.network(batch.observation)  # [N, K]
        action = self.actions.relaxed(output, random.rows(seed), hparams.gumbel_temperature)
        loss = -self.critic(batch.observation, action)[0, :, 0]
        loss += hparams.logit_penalty * self.actions.penalty(output)
        return loss * batch.mask, {"policy_loss": masked_mean(loss, batch.mask)}, None

    def update(self, batch: Batch, seed: Tensor) -> Update:
        critic_seed, policy_seed = random.split(seed, 2)
        critic = self.gradient_step(batch, critic_seed, "critic")
        policy = self.gradient_step(batch, policy_seed, "network", self.policy_loss).metrics
        self.after_update()
        kept = {"policy_loss": policy["policy_loss"], "policy_grad_norm": policy["grad_norm"]}
        return Update(critic.metrics | kept, critic.priorities)

    def after_update(self) -> None:
        copy_weights(self.network, self.target_network, self.hparams.tau)
        copy_weights(self.critic, self.target_critic, self.hparams.tau)
