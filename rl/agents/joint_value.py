"""Base of VDN and QMIX: DQN with a network of all agents' action values, from which the team's value is
computed.

The agents share one network, from an agent's observation and its number to the values of its actions. The
values of the agents' chosen actions are combined into the team's value, which is fitted:

    (r + discount * Q_total_target(s', argmax_a Q_i(s', a) of each i) - Q_total(s, a))^2

Switches are those of `rl/agents/value.py`. Values of agents that are gone count as 0.
"""

from __future__ import annotations

from typing import Any, TypeVar

import tensorflow as tf
from gymnasium import spaces

from rl.agents.groups import agents_of
from rl.agents.value import ValueAgent, replay_loss
from rl.errors import UsageError
from rl.hparams.vdn import VDNHParams
from rl.models.joint import AgentsEncoder, AgentsQNetwork
from rl.ops import value
from rl.types import Batch, Loss, Nest, Tensor

AnyJoint = TypeVar("AnyJoint", bound=VDNHParams)


class JointValueAgent(ValueAgent[AnyJoint]):
    """Base of algorithms that learn the value of a team's actions. A subclass writes `total`."""

    action_spaces = (spaces.MultiDiscrete,)

    def build(self) -> None:
        """Makes the networks of DQN. Raises UsageError where the environment has no cooperating agents."""
        hparams, self.agents = self.hparams, agents_of(self.observation_space, self.hparams, "alive")
        if not self.agents.cooperative:
            raise UsageError(
                f"{hparams.algo} learns the value of a team, and agents of {hparams.env} have opposed "
                "rewards (a team of your own says cooperative = True): take maddpg, or an algorithm in which "
                "each has its own, such as ppo"
            )
        super().build()

    def make_network(self, name: str) -> AgentsQNetwork:
        """Returns a network of all agents' action values."""
        encoder: Any = AgentsEncoder(self.encoder, len(self.agents.names))
        actions, initializers = int(self.action_space.nvec[0]), self.initializers
        switches: dict[str, Any] = {"dueling": self.hparams.dueling, "noisy_sigma": self.noisy_sigma}
        return AgentsQNetwork(self.hparams, encoder, actions, initializers, name=name, **switches)

    def total(self, values: Tensor, observation: Nest, target: bool) -> Tensor:
        """The team's value [N] from its agents' values [N, A] (0 for agents that are gone); by the target
        networks if `target`."""
        raise NotImplementedError

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams = self.hparams
        q_values, next_q_values, next_action = self.outputs(batch, seed)  # [N, A, n] twice, [N, A]
        following = value.select(next_q_values, next_action) * batch.next_observation["alive"]  # [N, A]
        next_value = self.total(following, batch.next_observation, target=True)  # [N]
        target = batch.reward + batch.discount * tf.stop_gradient(next_value)
        chosen = value.select(q_values, batch.action) * batch.observation["alive"]  # [N, A]
        q_value = self.total(chosen, batch.observation, target=False)  # [N]
        error = target - q_value
        loss = value.huber(error, hparams.huber_delta) if hparams.loss == "huber" else tf.square(error)
        return replay_loss(loss, q_value, error, batch)
