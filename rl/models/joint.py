"""Networks over what agents observe together, or beside the global state (`rl.envs.agents`, the views)."""

from __future__ import annotations

import keras
import tensorflow as tf

from rl.models.layers import ILLEGAL, Initializers, ObservationEncoder, dense, encoded_size, part_shapes
from rl.models.networks import QNetwork
from rl.types import Nest, Tensor


class AgentsEncoder(keras.layers.Layer):
    """Joint observations `[N, ...]` to a row for each agent, `[N * A, F + A]`: what it observes, and its
    number as one-hot. It stands where networks of one agent have an `ObservationEncoder`.

    Args:
        encoder: of the joint observations.
        agents: A.
    """

    def __init__(self, encoder: ObservationEncoder, agents: int, name: str = "agents"):
        super().__init__(name=name, trainable=False)
        self.joint, self.agents = encoder, agents
        self.size = encoded_size(encoder.space["agents"]) // agents + agents
        self.shapes = [(self.size,)]
        self.built = True

    def call(self, observation: Nest) -> Tensor:
        seen = self.joint.parts(observation)["agents"]  # [N, A * F]
        count = seen.shape[0]
        rows = tf.reshape(seen, [count * self.agents, self.size - self.agents])
        return tf.concat([rows, tf.tile(tf.eye(self.agents), [count, 1])], -1)

    def mask_illegal(self, values: Tensor, observation: Nest) -> Tensor:
        """Values or logits [N * A, n], those of illegal actions replaced by `ILLEGAL`."""
        legal = self.joint.action_mask(observation)  # [N, A * n]
        return values if legal is None else tf.where(tf.reshape(legal, values.shape), values, ILLEGAL)


class WithoutParts(keras.layers.Layer):
    """Dict observations as `encoder` gives them, without some of their parts: `[N, F]`."""

    def __init__(self, encoder: ObservationEncoder, *parts: str):
        super().__init__(name=f"without_{'_'.join(parts)}", trainable=False)
        self.whole, self.left_out = encoder, parts
        rest = [each for name, each in sorted(encoder.space.spaces.items()) if name not in parts]
        self.shapes = [shape for each in rest for shape in part_shapes(each)]
        self.built = True

    def call(self, observation: Nest) -> Tensor:
        parts = self.whole.parts(observation)
        return tf.concat([x for name, x in parts.items() if name not in self.left_out], -1)


class AgentsQNetwork(QNetwork):
    """Joint observations to action values of every agent, `[N, A, actions]`, by a network that all share."""

    encoder: AgentsEncoder

    def call(self, observation: Nest, training: bool = False) -> Tensor:
        values = super().call(observation, training)  # [N * A, actions]
        return tf.reshape(values, [-1, self.encoder.agents, self.actions])


class MonotonicMixer(keras.Model):
    """A team's value of its agents' values, and of the state, which makes all weights (Rashid et al. 2018):

        elu(values |W1(s)| + b1(s)) |w2(s)| + b2(s)

    W1, b1 and w2 are linear in the state, b2 has a hidden layer. Weights are never negative, so that the
    team's value never falls where an agent's rises.

    Args:
        encoder: of the joint observations.
        agents: how many values are mixed.
        units: of the hidden layer that mixes them, and of that of b2.
    """

    def __init__(
        self,
        encoder: ObservationEncoder,
        agents: int,
        units: int,
        initializers: Initializers,
        name: str = "mixer",
    ):
        super().__init__(name=name)
        self.encoder, self.agents, self.units = encoder, agents, units
        size = encoded_size(encoder.space["state"])

        def linear(inputs: int, outputs: int, layer_name: str) -> keras.layers.Dense:
            return dense(inputs, outputs, initializers.hidden("linear"), layer_name)

        self.hidden_kernel = linear(size, agents * units, "hidden_kernel")  # W1
        self.hidden_bias = linear(size, units, "hidden_bias")  # b1
        self.output_kernel = linear(size, units, "output_kernel")  # w2
        self.output_hidden = dense(size, units, initializers.hidden("relu"), "output_hidden", "relu")
        self.output_bias = linear(units, 1, "output_bias")  # b2
        self.built = True

    def call(self, values: Tensor, observation: Nest) -> Tensor:
        """The team's values [N] of values [N, A]."""
        state = self.encoder.parts(observation)["state"]  # [N, S]
        kernel = tf.reshape(tf.abs(self.hidden_kernel(state)), [-1, self.agents, self.units])
        mixed = tf.reduce_sum(values[:, :, None] * kernel, 1)  # [N, units]
        hidden = tf.nn.elu(mixed + self.hidden_bias(state))
        weighed = tf.reduce_sum(hidden * tf.abs(self.output_kernel(state)), -1)
        return weighed + self.output_bias(self.output_hidden(state))[:, 0]
