"""MADDPG: DDPG of many agents, whose critics see what all of them observe and do.

Lowe et al. 2017, "Multi-agent actor-critic for mixed cooperative-competitive environments",
https://arxiv.org/abs/1706.02275. Agent i acts by mu_i(o_i); its critic, which only learning needs, is fitted
to r_i + discount * Q_i_target(o', mu_1_target(o_1'), ..., mu_A_target(o_A')) (equation 6), and its policy
minimises -Q_i(o, a_1, ..., mu_i(o_i), ..., a_A), the others' actions being the replayed ones (equation 5).
Each agent has a policy, a critic and rewards of its own, so that they may cooperate or not.

Discrete actions as of `rl/agents/algos/ddpg.py`: one-hot codes, through which the gradient passes by a
straight-through Gumbel-softmax sample; each critic is linear in its own agent's action, and large logits are
penalised.

Deviations from the paper:

1. Agents do not learn models of one another (section 4.2), and have no ensembles of policies (section 4.3).
2. In a critic's target all agents' actions, its own too, are their target policies' likeliest, without noise.
3. What an agent that is gone would do is coded by zeros, and its critic and policy learn nothing then.
4. Box actions are explored by Gaussian noise, discrete ones by sampling; `act_select` may say otherwise.
5. Truncated episodes bootstrap from the last observation; an agent's values end where it leaves.
6. Collecting and learning alternate in blocks: after each rollout come `updates_per_iteration` updates.
"""

from __future__ import annotations

import tensorflow as tf
from gymnasium import spaces

from rl.agents.actor_critic import ReplayActorCritic
from rl.agents.algos.registry import register
from rl.agents.groups import agents_of
from rl.agents.value import replay_loss
from rl.errors import UsageError
from rl.hparams.maddpg import MADDPGHParams
from rl.models.continuous import BoxActions, DiscreteActions
from rl.models.side_by_side import AgentsActor, AgentsCritic
from rl.ops import random
from rl.ops.distributions import MultiCategorical
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor


@register
class MADDPG(ReplayActorCritic[MADDPGHParams]):
    """DDPG of many agents with critics of all: bounded continuous actions, and discrete ones."""

    action_spaces = (spaces.MultiDiscrete, spaces.Box)

    def build(self) -> None:
        hparams, space = self.hparams, self.action_space
        self.count = len(agents_of(self.observation_space, hparams, "alive").names)  # A
        if hparams.policies:
            raise UsageError(
                f"hparam policies={hparams.policies!r}: maddpg's agents have networks of their own already: "
                "leave it out"
            )
        self.own_rewards = "reward" in self.observation_space.spaces
        given = {"n_step": hparams.n_step > 1, "normalize_reward": hparams.normalize_reward}
        given["reward_augmentation"] = hparams.reward_augmentation is not None
        if self.own_rewards and any(given.values()):
            wrong = next(name for name, each in given.items() if each)
            raise UsageError(
                f"hparam {wrong}: agents of {hparams.env} have rewards of their own, and maddpg takes these "
                "as they come, step by step: leave it out"
            )
        self.discrete = isinstance(space, spaces.MultiDiscrete)
        one = spaces.Discrete(int(space.nvec[0])) if self.discrete else space
        self.actions = DiscreteActions(one) if self.discrete else BoxActions(space, hparams.algo)
        self.size = self.actions.size // (1 if self.discrete else self.count)  # K
        super().build()

    def make_actor(self, name: str) -> AgentsActor:
        return AgentsActor(self.hparams, self.encoder, self.count, self.size, self.initializers, name)

    def make_critic(self, name: str) -> AgentsCritic:
        sizes = self.count, self.size
        return AgentsCritic(self.hparams, self.encoder, *sizes, self.initializers, self.discrete, name)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        output = self.network(observation)  # [N, A, K]
        flat = tf.reshape(output, [output.shape[0], self.count * self.size])
        if self.discrete:
            return PolicyOutput(distribution=MultiCategorical(flat, [self.size] * self.count))
        return PolicyOutput(distribution=self.actions.deterministic(flat))

    def code(self, action: Tensor) -> Tensor:
        """Returns codes [N, A, K] of the environment's actions."""
        return tf.reshape(self.actions.encode(action), [action.shape[0], self.count, self.size])

    def target(self, batch: Batch, seed: Tensor) -> Tensor:
        """Returns what each agent's critic is to say, [N, A]."""
        alive = batch.next_observation["alive"]  # [N, A]
        next_action = self.actions.greedy(self.target_network(batch.next_observation))  # [N, A, K]
        next_q_value = self.target_critic(batch.next_observation, next_action * alive[..., None])  # [N, A]
        reward = batch.next_observation["reward"] if self.own_rewards else batch.reward[:, None]
        return reward + batch.discount[:, None] * alive * next_q_value

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the critics' loss, summed over agents."""
        alive = batch.observation["alive"]  # [N, A]
        q_values = self.critic(batch.observation, self.code(batch.action) * alive[..., None])  # [N, A]
        error = (tf.stop_gradient(self.target(batch, seed)) - q_values) * alive
        loss = tf.reduce_sum(tf.square(error), 1)
        present = tf.maximum(tf.reduce_sum(alive, 1), 1.0)  # [N]
        size = tf.reduce_sum(tf.abs(error), 1) / present
        return replay_loss(loss, tf.reduce_sum(q_values * alive, 1) / present, size, batch)

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams, alive = self.hparams, batch.observation["alive"]  # [N, A]
        output = self.network(batch.observation)  # [N, A, K]
        chosen = self.actions.relaxed(output, random.rows(seed), hparams.gumbel_temperature)
        itself = tf.eye(self.count)[:, None, :, None]
        action = itself * chosen + (1.0 - itself) * self.code(batch.action)  # [A, N, A, K], of each critic
        each = -self.critic(batch.observation, action * alive[..., None])  # [N, A]
        if self.discrete:
            each += hparams.logit_penalty * self.actions.penalty(output)
        loss = tf.reduce_sum(each * alive, 1)
        return loss * batch.mask, {"policy_loss": masked_mean(loss, batch.mask)}, None
