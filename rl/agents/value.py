"""Base of DQN and related algorithms: two networks, their outputs for a batch, target updates, metrics.

All of them have these switches, each the whole contribution of a paper:

* `double`: van Hasselt et al. 2016, https://arxiv.org/abs/1509.06461 (`ValueAgent.outputs`)
* `dueling`: Wang et al. 2016, https://arxiv.org/abs/1511.06581 (the head, in `rl/models/networks.py`)
* `noisy`: Fortunato et al. 2018, https://arxiv.org/abs/1706.10295 (explores in place of epsilon-greedy; the
  layers after the torso are noisy, not the torso's own; the noise is drawn again for every rollout, the
  same for all environments, and for every update, where with `double` the same draw chooses the next
  action, for which the paper draws once more; evaluation uses the mean weights; `random_steps` fills the
  memory with uniformly random actions first, as in Mnih et al. 2015, since noise alone may never try an
  action that the first weights do not choose)
* `prioritized`: Schaul et al. 2016, https://arxiv.org/abs/1511.05952 (the memory)
* `n_step`: Sutton 1988, as in Rainbow, https://arxiv.org/abs/1710.02298 (the memory)
"""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.groups import grouped
from rl.agents.targets import copy_weights, update_target
from rl.hparams.dqn import DQNHParams
from rl.models.networks import QNetwork
from rl.ops import sequence
from rl.ops.affine import bias_apart
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Trajectory

AnyDQN = TypeVar("AnyDQN", bound=DQNHParams)


class ValueAgent(Agent[AnyDQN]):
    """Base of algorithms that act by action values: `network`, and `target_network` that follows it.

    A subclass implements `loss`. If its network has more outputs than a value for each action, it sets
    `values_per_action` before it calls this `build`, and implements `q_values`.
    """

    experience = "transition"
    action_spaces = (spaces.Discrete,)
    values_per_action = 1  # how many numbers the network gives for each action
    biases_apart = False  # whether dense layers that learn add biases by themselves (`rl.ops.affine`)

    def build(self) -> None:
        """Makes both networks with the same weights, the optimizer, and the count of updates."""
        for name in ("network", "target_network"):
            self.add_network(name, grouped(self, self.make_network, name))
        self.network, self.target_network = self.networks["network"], self.networks["target_network"]
        self.add_optimizer("network", self.network.trainable_variables)
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")
        copy_weights(self.network, self.target_network, 1.0)

    def make_network(self, name: str) -> QNetwork:
        """Returns a network of action values with the switches `dueling` and `noisy`."""
        return QNetwork(
            self.hparams,
            self.encoder,
            int(self.action_space.n),
            self.initializers,
            self.values_per_action,
            dueling=self.hparams.dueling,
            noisy_sigma=self.noisy_sigma,
            name=name,
        )

    @property
    def noisy_sigma(self) -> float | None:
        """The initial spread of noisy layers; None where layers are not noisy."""
        return self.hparams.noisy_sigma if self.hparams.noisy else None

    def q_values(self, outputs: Tensor, observation: Nest) -> Tensor:
        """Returns action values [N, A] from the network's outputs for these observations."""
        return outputs

    def outputs(self, batch: Batch, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns both networks' outputs for a batch, with new noise.

        Returns:
            `network`'s outputs for the observations, [N, A] or [N, A, K]; `target_network`'s for the next
            observations, without gradient; the best next action [N], by `network` if `double`, else by
            `target_network`.
        """
        self.resample_noise(seed)
        with bias_apart() if self.biases_apart else contextlib.nullcontext():
            outputs = self.network(batch.observation, training=True)
            next_outputs = self.target_network(batch.next_observation, training=True)
            selector = next_outputs
            if self.hparams.double:
                selector = self.network(batch.next_observation, training=True)
        values = self.q_values(selector, batch.next_observation)
        return outputs, tf.stop_gradient(next_outputs), tf.argmax(values, -1, output_type=tf.int32)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        outputs = self.network(observation, training=training)
        return PolicyOutput(q_values=self.q_values(outputs, observation))

    def after_update(self) -> None:
        period, tau = self.hparams.target_update_period, self.hparams.tau
        self.updates.assign_add(1)
        update_target(self.network, self.target_network, self.updates, period, tau)

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | {"updates": self.updates}


def replay_loss(loss: Tensor, q_value: Tensor, error: Tensor, batch: Batch) -> Loss:
    """Makes the result of `Agent.loss` for replayed transitions: the loss times sample weight and mask, two
    metrics, and the absolute errors as priorities.

    loss, q_value (predicted), error (TD error): one number per example, [N].
    """
    size = tf.abs(error)
    metrics = {"q_value": masked_mean(q_value, batch.mask), "td_error": masked_mean(size, batch.mask)}
    return loss * batch.sample_weight * batch.mask, metrics, size


def unrolled(network: QNetwork, trajectory: Trajectory, burn_in: int) -> Tensor:
    """Returns action values `[U+1, N, ...]` of sequences [burn_in + U, N]: of the observations after the
    burn-in."""

    def warm(observation: Nest, state: Nest, mask: Tensor) -> Nest:
        return network.unroll(observation, state, mask, training=True)[1]

    observation, state, mask = sequence.after_burn_in(trajectory, burn_in, warm)
    return network.unroll(observation, state, mask, training=True)[0]


def steps_after(trajectory: Trajectory, burn_in: int) -> Trajectory:
    """Returns the steps `[U, N]` of sequences after the burn-in, without observations, extras and states."""
    steps = trajectory._replace(observation=(), extras={}, recurrent_state=())
    found: Trajectory = tf.nest.map_structure(lambda x: x[burn_in:], steps)
    return found


def sequences_loss(
    loss: Tensor, q_value: Tensor, error: Tensor, batch: SequenceBatch, mask: Tensor, eta: float
) -> Loss:
    """Makes the result of `Agent.loss` for replayed sequences: the mean over steps of the loss, where the
    mask is 1, times sample weight; two metrics, and priorities by `eta`
    (`rl.ops.sequence.sequence_priority`).

    loss, q_value (predicted), error (TD error), mask: one number per step after the burn-in, [U, N].
    """
    metrics = {"q_value": masked_mean(q_value, mask), "td_error": masked_mean(tf.abs(error), mask)}
    priorities = sequence.sequence_priority(error, mask, eta)
    return tf.reduce_mean(loss * mask, 0) * batch.sample_weight, metrics, priorities


def critic_loss(q_values: Tensor, target: Tensor, batch: Batch, scale: float = 1.0) -> Loss:
    """Makes the result of `Agent.loss` for critics that are fitted to one target: the sum of their squared
    errors, times `scale`.

    q_values: [C, N], of the actions taken; target: [N], without gradient here.
    """
    error = tf.stop_gradient(target) - q_values  # [C, N]
    loss = scale * tf.reduce_sum(tf.square(error), 0)
    return replay_loss(loss, tf.reduce_mean(q_values, 0), tf.reduce_mean(tf.abs(error), 0), batch)
