"""Policies and critics of agents side by side, each with weights of its own, in batched products."""

from __future__ import annotations

import keras
import tensorflow as tf

from rl.hparams.hparams import HParams, ModelHParams
from rl.models.continuous import EnsembleDense
from rl.models.layers import ILLEGAL, Initializers, ObservationEncoder, encoded_size
from rl.models.precision import precision_of
from rl.models.torso import of_value
from rl.types import Nest, Tensor


class AgentsActor(keras.Model):
    """Policies of agents, each of what it observes itself: joint observations to `[N, A, outputs]`.

    Illegal actions' outputs are `ILLEGAL`.

    Args:
        encoder: of the joint observations (`rl.envs.agents`, view `joint`).
        agents: A.
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        agents: int,
        outputs: int,
        initializers: Initializers,
        name: str = "network",
    ):
        super().__init__(name=name)
        self.encoder, self.agents = encoder, agents
        width = encoded_size(encoder.space["agents"]) // agents
        self.hidden, width = _hidden(hparams.model, width, agents, initializers)
        starts = [initializers.output(0.01) for _ in range(agents)]
        self.policy = EnsembleDense(width, outputs, starts, "policy")
        self.built = True

    def call(self, observation: Nest) -> Tensor:
        seen = self.encoder.parts(observation)["agents"]  # [N, A * F]
        x = tf.transpose(tf.reshape(seen, [seen.shape[0], self.agents, -1]), [1, 0, 2])  # [A, N, F]
        for layer in self.hidden:
            x = layer(x)
        output = tf.transpose(self.policy(x), [1, 0, 2])
        legal = self.encoder.action_mask(observation)  # [N, A * outputs]
        return output if legal is None else tf.where(tf.reshape(legal, output.shape), output, ILLEGAL)


class AgentsCritic(keras.Model):
    """Critics of agents, of what all observe and do: joint observations and codes of actions to `[N, A]`.

    Args:
        encoder, agents: as of `AgentsActor`.
        size: K, of the code of one agent's action.
        linear: an agent's value is linear in its own action, whose code weighs the last layer's outputs. For
            one-hot codes that restricts nothing, and the slope towards another action is the difference of
            values.
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        agents: int,
        size: int,
        initializers: Initializers,
        linear: bool = False,
        name: str = "critic",
    ):
        super().__init__(name=name)
        self.encoder, self.agents, self.linear = encoder, agents, linear
        width = encoded_size(encoder.space["agents"]) + agents * size
        self.hidden, width = _hidden(of_value(hparams.model), width, agents, initializers)
        starts = [initializers.output(1.0) for _ in range(agents)]
        self.value = EnsembleDense(width, size if linear else 1, starts, "value")
        self.built = True

    def call(self, observation: Nest, action: Tensor) -> Tensor:
        """Returns values [N, A] of codes [N, A, K], the same for all critics, or [A, N, A, K], of each its
        own."""
        seen = self.encoder.parts(observation)["agents"]  # [N, A * F]
        agents, count, size = self.agents, seen.shape[0], action.shape[-1]
        action = tf.broadcast_to(action, [agents, count, agents, size])
        itself = tf.eye(agents)[:, None, :, None]
        own = tf.reduce_sum(action * itself, 2)  # [A, N, K]
        if self.linear:
            action *= 1.0 - itself
        seen = tf.broadcast_to(seen, [agents, *seen.shape])
        x = tf.concat([seen, tf.reshape(action, [agents, count, agents * size])], -1)
        for layer in self.hidden:
            x = layer(x)
        x = self.value(x)  # [A, N, K] or [A, N, 1]
        return tf.transpose(tf.reduce_sum(x * own, -1) if self.linear else x[..., 0])


def _hidden(
    model: ModelHParams, width: int, agents: int, initializers: Initializers
) -> tuple[list[EnsembleDense], int]:
    """The layers `model.hidden` of each agent, from so many inputs, and how wide the last of them is."""
    layers = []
    rest = model.activation, model.layer_norm, precision_of(model)
    for i, units in enumerate(model.hidden):
        starts = [initializers.hidden(model.activation) for _ in range(agents)]
        layers.append(EnsembleDense(width, units, starts, f"dense_{i}", *rest))
        width = units
    return layers, width
