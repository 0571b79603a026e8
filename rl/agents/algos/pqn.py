"""PQN: parallelised Q-learning from rollouts, without a replay memory and without a target network.

Gallici et al. 2024, "Simplifying deep temporal difference learning", https://arxiv.org/abs/2407.04811
(the authors' code: github.com/mttga/purejaxql). Many environments act epsilon-greedily for
`rollout_length` steps. The action values are then fitted to the rollout's lambda-returns, in `epochs` passes
of `minibatches` parts each, shuffled anew in every pass:

    R[t] = r[t] + gamma * ((1 - trace_lambda) * max_a Q(s[t+1], a) + trace_lambda * R[t+1])

R[t] is r[t] where the episode terminated, and r[t] + gamma * max_a Q(s[t+1], a) at the rollout's last step.
These Q are of the network that has acted, so targets stay what they are while it learns. Layer normalisation
(`model.layer_norm`, which the named sets turn on) keeps it from diverging. The trace goes on through random
actions, as in Peng's Q(lambda).

With a recurrent model (lstm, gru) minibatches are whole sequences: groups of environments, each unrolled from
the state that the rollout began with; `minibatches` has to divide `num_envs`.

Deviations from the paper:

1. Adam in place of RAdam (the authors' code), whose first steps are smaller.
2. Truncated episodes bootstrap from the last observation, and the trace ends there; the authors' code takes
   them for terminated ones.
3. Convolutions are not normalised, layers behind them are.
4. Rewards may be scaled by the deviation of returns (`normalize_reward`); the authors' code scales them by a
   constant on some tasks (`reward_augmentation=scale:0.1`).
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.agents.groups import grouped
from rl.agents.policy_gradient import check_sequences, over_minibatches
from rl.hparams.ppo import check_minibatches
from rl.hparams.pqn import PQNHParams
from rl.models.networks import QNetwork
from rl.ops import value
from rl.ops.nests import flatten_time, swap_time, without_last
from rl.ops.policy import masked_mean
from rl.ops.returns import lambda_return
from rl.types import Loss, Nest, PolicyOutput, Tensor, Trajectory, Update


class Minibatch(NamedTuple):
    """Single steps; of a recurrent model whole sequences, [B, T, ...] in place of [N, ...]."""

    observation: Nest  # [N, ...]
    action: Tensor  # [N]
    target: Tensor  # [N] of the action's value
    mask: Tensor  # [N]
    recurrent_state: Nest = ()  # [B, ...] of the network before the sequences


@register
class PQN(Agent[PQNHParams]):
    """Q(lambda) from rollouts of many environments, without replay and without a target network."""

    experience = "rollout"
    action_spaces = (spaces.Discrete,)
    recurrent = True

    def build(self) -> None:
        check_minibatches(self.hparams)
        self.network = self.add_network("network", grouped(self, self.make_network, "network"))
        self.add_optimizer("network", self.network.trainable_variables)
        self.sequences = self.network.initial_state(1) != ()  # whether minibatches are of whole sequences
        if self.sequences:
            check_sequences(self.hparams)

    def make_network(self, name: str) -> QNetwork:
        """Returns a network of action values."""
        actions = int(self.action_space.n)
        return QNetwork(self.hparams, self.encoder, actions, self.initializers, name=name)

    def updates_per_iteration(self) -> int:
        return self.hparams.epochs * self.hparams.minibatches

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        q_values, state = self.network.step(observation, recurrent_state, training)
        return PolicyOutput(q_values=q_values, recurrent_state=state)

    def loss(self, batch: Minibatch, seed: Tensor) -> Loss:
        if self.sequences:
            steps = swap_time(batch._replace(recurrent_state=()))  # [T, B, ...]
            unrolled = self.network.unroll(
                steps.observation, batch.recurrent_state, steps.mask, training=True
            )
            q_values, batch = flatten_time(unrolled[0]), flatten_time(steps)
        else:
            q_values = self.network(batch.observation, training=True)  # [N, A]
        chosen = value.select(q_values, batch.action)  # [N]
        error = batch.target - chosen
        metrics = {
            "q_value": masked_mean(chosen, batch.mask),
            "td_error": masked_mean(tf.abs(error), batch.mask),
        }
        return 0.5 * tf.square(error) * batch.mask, metrics, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes `epochs` passes over the rollout in `minibatches` parts, shuffled anew in every pass."""
        hparams, data = self.hparams, self.with_targets(batch)

        def step(part: Minibatch) -> dict[str, Tensor]:
            return self.gradient_step(part, seed).metrics

        metrics = over_minibatches(step, data, hparams.epochs, hparams.minibatches, seed)
        return Update(metrics | {"updates": tf.constant(float(self.updates_per_iteration()))})

    def targets(self, trajectory: Trajectory) -> Tensor:
        """Returns the lambda-return of every step, by the present network's values: [T, B]. Meaningless where
        the step was an autoreset (mask 0)."""
        hparams = self.hparams
        mask = tf.concat([trajectory.mask, tf.ones_like(trajectory.mask[:1])], 0)  # [T+1, B]
        q_values, _ = self.network.unroll(trajectory.observation, trajectory.recurrent_state, mask)
        best = tf.reduce_max(q_values, -1)  # [T+1, B]
        discount = hparams.gamma * (1.0 - tf.cast(trajectory.terminated, tf.float32))  # [T, B]
        trace = hparams.trace_lambda * (1.0 - tf.cast(trajectory.truncated, tf.float32))  # [T, B]
        return lambda_return(trajectory.reward, discount, best, trace)

    def with_targets(self, trajectory: Trajectory) -> Minibatch:
        """Returns the rollout as a flat batch [T * B], or [B, T] of sequences, with its targets."""
        observation = without_last(trajectory.observation)
        data = Minibatch(observation, trajectory.action, self.targets(trajectory), trajectory.mask)
        steps: Minibatch = swap_time(data) if self.sequences else flatten_time(data)
        return steps._replace(recurrent_state=trajectory.recurrent_state)
