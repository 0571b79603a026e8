"""Networks over what agents observe together, or beside the global state (`rl.envs.agents`, the views)."""

from __future__ import annotations

import keras
import tensorflow as tf

from rl.envs.wrappers import PREVIOUS_ACTION, PREVIOUS_REWARD
from rl.models import torso
from rl.models.layers import ILLEGAL, Initializers, ObservationEncoder, dense, encoded_size, part_shapes
from rl.models.networks import QNetwork
from rl.ops.nests import flatten_time
from rl.types import Nest, Tensor

SMALL = 0.1  # a mean square of the state; of smaller ones the mixer's weights tell how small


class AgentsEncoder(keras.layers.Layer):
    """Joint observations `[N, ...]` to a row for each agent, `[N * A, F]`: what it observes, its own last
    action (one-hot of n + 1, the first where there was none) and the team's last reward where observations
    tell them (`previous_action_reward`), and its number as one-hot. It stands where networks of one agent
    have an `ObservationEncoder`.

    Args:
        encoder: of the joint observations.
        agents: A.
    """

    def __init__(self, encoder: ObservationEncoder, agents: int, name: str = "agents"):
        super().__init__(name=name, trainable=False)
        self.joint, self.agents = encoder, agents
        told = {PREVIOUS_ACTION, PREVIOUS_REWARD} & set(encoder.space.spaces)
        self.own = ["agents", *sorted(told - {PREVIOUS_REWARD})]  # parts of numbers of agent after agent
        self.shared = sorted(told - {PREVIOUS_ACTION})  # parts that all agents see alike
        sizes = {name: encoded_size(encoder.space[name]) for name in (*self.own, *self.shared)}
        own, shared = (sum(sizes[name] for name in names) for names in (self.own, self.shared))
        self.size = own // agents + shared + agents
        self.shapes = [(self.size,)]
        self.built = True

    def call(self, observation: Nest) -> Tensor:
        parts = self.joint.parts(observation)
        count = parts["agents"].shape[0]
        own = [tf.reshape(parts[name], [count * self.agents, -1]) for name in self.own]
        shared = [tf.repeat(parts[name], self.agents, 0) for name in self.shared]
        return tf.concat([*own, *shared, tf.tile(tf.eye(self.agents), [count, 1])], -1)

    def mask_illegal(self, values: Tensor, observation: Nest) -> Tensor:
        """Returns values or logits [N * A, n], those of illegal actions replaced by `ILLEGAL`."""
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
    """Joint observations to action values of every agent, `[N, A, actions]`, by a network that all share.

    Where it keeps state, each agent has its own: `[N, A, ...]`.
    """

    encoder: AgentsEncoder

    def initial_state(self, count: int) -> Nest:
        return self._by_team(super().initial_state(count * self.encoder.agents))

    def call(self, observation: Nest, training: bool = False) -> Tensor:
        return self._by_team(super().call(observation, training))

    def step(self, observation: Nest, state: Nest, training: bool = False) -> tuple[Tensor, Nest]:
        values, state = super().step(observation, flatten_time(state), training)
        return self._by_team(values), self._by_team(state)

    def unroll(
        self, observation: Nest, state: Nest, mask: Tensor, training: bool = False
    ) -> tuple[Tensor, Nest]:
        """Returns values along a trajectory, `[T, B, A, actions]`, and the state after it.

        observation `[T, B, ...]`, state `[B, A, ...]`, mask `[T, B]` (`rl.models.torso.unroll`).
        """
        length, count = mask.shape
        flat, rows = flatten_time(observation), count * self.encoder.agents
        x = tf.reshape(self.encoder(flat), [length, rows, self.encoder.size])
        mask = tf.repeat(mask, self.encoder.agents, 1)  # [T, B * A]
        features, state = torso.unroll(self.torso, x, flatten_time(state), mask)
        values = self._by_team(self._head(features, flat, training))  # [T * B, A, actions]
        return tf.reshape(values, [length, count, *values.shape[1:]]), self._by_team(state)

    def _by_team(self, rows: Nest) -> Nest:
        """`[N * A, ...]` to `[N, A, ...]` in every tensor."""
        agents = self.encoder.agents
        return tf.nest.map_structure(lambda x: tf.reshape(x, [-1, agents, *x.shape[1:]]), rows)


class MonotonicMixer(keras.Model):
    """A team's value of its agents' values, and of the state, which makes all weights (Rashid et al. 2018):

        elu(values |W1(c)| + b1(c)) |w2(c)| + b2(s),    c = s / sqrt(0.1 + mean(s^2))

    W1, b1 and w2 are linear in c, the state at about the same length, so that weights do not grow with states
    that are far. b2 has a hidden layer. Weights are never negative, so that the team's value never falls
    where an agent's rises.

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
        """Returns the team's values [N] of values [N, A]."""
        state = self.encoder.parts(observation)["state"]  # [N, S]
        near = state * tf.math.rsqrt(SMALL + tf.reduce_mean(tf.square(state), -1, keepdims=True))
        kernel = tf.reshape(tf.abs(self.hidden_kernel(near)), [-1, self.agents, self.units])
        mixed = tf.reduce_sum(values[:, :, None] * kernel, 1)  # [N, units]
        hidden = tf.nn.elu(mixed + self.hidden_bias(near))
        weighed = tf.reduce_sum(hidden * tf.abs(self.output_kernel(near)), -1)
        return weighed + self.output_bias(self.output_hidden(state))[:, 0]
