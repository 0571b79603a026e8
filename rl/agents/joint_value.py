"""Base of VDN and QMIX: DQN with a network of all agents' action values, from which the team's value is
computed.

The agents share one network, from an agent's observation and its number to the values of its actions. The
values of the agents' chosen actions are combined into the team's value, which is fitted:

    (r + discount * Q_total_target(s', argmax_a Q_i(s', a) of each i) - Q_total(s, a))^2

Switches are those of `rl/agents/value.py`. Values of agents that are gone count as 0.

With a model that keeps state (`model.name=lstm`, `gru`) each agent has its own, and learning is from
sequences, as in R2D2 (`rl/agents/algos/r2d2.py`) without its rescaling: both networks go through the first
`burn_in` steps from the state that was stored, without gradient; then the loss is the mean over
`unroll_length` steps, with n-step targets along the sequence, and each sequence has one priority.
"""

from __future__ import annotations

from typing import Any, TypeVar

import tensorflow as tf
from gymnasium import spaces

from rl.agents.groups import agents_of
from rl.agents.value import ValueAgent, replay_loss, sequences_loss, steps_after, unrolled
from rl.errors import UsageError
from rl.hparams.vdn import VDNHParams
from rl.models.joint import AgentsEncoder, AgentsQNetwork
from rl.ops import sequence, value
from rl.ops.nests import flatten_time, without_last
from rl.types import Batch, Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Trajectory

AnyJoint = TypeVar("AnyJoint", bound=VDNHParams)


class JointValueAgent(ValueAgent[AnyJoint]):
    """Base of algorithms that learn the value of a team's actions. A subclass writes `total`."""

    action_spaces = (spaces.MultiDiscrete,)
    recurrent = True

    def build(self) -> None:
        """Makes the networks of DQN, and decides what is learned from: sequences, where the network keeps
        state or the hparams name a memory of them.

        Raises:
            UsageError: the environment has no cooperating agents.
        """
        hparams, self.agents = self.hparams, agents_of(self.observation_space, self.hparams, "alive")
        if not self.agents.cooperative:
            raise UsageError(
                f"{hparams.algo} learns the value of a team, and agents of {hparams.env} have opposed "
                "rewards (a team of your own says cooperative = True): take maddpg, or an algorithm in which "
                "each has its own, such as ppo"
            )
        super().build()
        if hparams.memory_name == "sequence" or tf.nest.flatten(self.network.initial_state(1)):
            self.experience = "sequence"

    def make_network(self, name: str) -> AgentsQNetwork:
        """Returns a network of all agents' action values."""
        encoder: Any = AgentsEncoder(self.encoder, len(self.agents.names))
        actions, initializers = int(self.action_space.nvec[0]), self.initializers
        switches: dict[str, Any] = {"dueling": self.hparams.dueling, "noisy_sigma": self.noisy_sigma}
        return AgentsQNetwork(self.hparams, encoder, actions, initializers, name=name, **switches)

    def total(self, values: Tensor, observation: Nest, target: bool) -> Tensor:
        """Returns the team's value [N] from its agents' values [N, A] (0 for agents that are gone); by the
        target networks if `target`."""
        raise NotImplementedError

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        q_values, state = self.network.step(observation, recurrent_state, training)
        return PolicyOutput(q_values=q_values, recurrent_state=state)

    def loss(self, batch: Batch | SequenceBatch, seed: Tensor) -> Loss:
        if isinstance(batch, SequenceBatch):
            return self.sequence_loss(batch, seed)
        q_values, next_q_values, next_action = self.outputs(batch, seed)  # [N, A, n] twice, [N, A]
        following = value.select(next_q_values, next_action) * batch.next_observation["alive"]  # [N, A]
        next_value = self.total(following, batch.next_observation, target=True)  # [N]
        target = batch.reward + batch.discount * tf.stop_gradient(next_value)
        chosen = value.select(q_values, batch.action) * batch.observation["alive"]  # [N, A]
        q_value = self.total(chosen, batch.observation, target=False)  # [N]
        error = target - q_value
        return replay_loss(self.loss_of(error), q_value, error, batch)

    def sequence_loss(self, batch: SequenceBatch, seed: Tensor) -> Loss:
        """Returns the loss of sequences [N]: the mean over the U steps after the burn-in, and a priority for
        each sequence."""
        hparams, trajectory = self.hparams, batch.trajectory
        self.resample_noise(seed)
        q_values = self.unroll(self.network, trajectory)  # [U+1, N, A, n]
        next_q_values = self.unroll(self.target_network, trajectory)  # [U+1, N, A, n]
        steps = steps_after(trajectory, hparams.burn_in)  # [U, N]
        seen = tf.nest.map_structure(lambda x: x[hparams.burn_in :], trajectory.observation)  # [U+1, N, ...]
        best = tf.argmax(q_values if hparams.double else next_q_values, -1, output_type=tf.int32)
        following = self.total_along(value.select(next_q_values, best), seen, target=True)  # [U+1, N]
        flags, n_step = (steps.terminated, steps.truncated), hparams.n_step
        target = sequence.n_step_target(steps.reward, following, *flags, hparams.gamma, n_step)  # [U, N]
        chosen = value.select(q_values[:-1], steps.action)  # [U, N, A]
        q_value = self.total_along(chosen, without_last(seen), target=False)  # [U, N]
        error, mask = tf.stop_gradient(target) - q_value, steps.mask * batch.mask
        return sequences_loss(self.loss_of(error), q_value, error, batch, mask, hparams.priority_eta)

    def unroll(self, network: AgentsQNetwork, trajectory: Trajectory) -> Tensor:
        """Returns action values `[U+1, N, A, n]` of all agents for the observations after the burn-in."""
        return unrolled(network, trajectory, self.hparams.burn_in)

    def total_along(self, values: Tensor, observation: Nest, target: bool) -> Tensor:
        """Returns the team's value [T, N], as `total`, of values [T, N, A] and observations [T, N, ...], in
        which those of agents that are gone count as 0."""
        present = flatten_time(values * observation["alive"])  # [T * N, A]
        return tf.reshape(self.total(present, flatten_time(observation), target), values.shape[:2])

    def loss_of(self, error: Tensor) -> Tensor:
        """Returns the loss of TD errors by the hparam `loss`. Elementwise."""
        hparams = self.hparams
        return value.huber(error, hparams.huber_delta) if hparams.loss == "huber" else tf.square(error)
