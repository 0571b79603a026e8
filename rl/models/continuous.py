"""Actors and critics of the Q-function policy gradients, and how their actions are coded.

A critic sees actions as vectors `[N, K]`: those of a Box brought to [-1, 1], those of a Discrete space as
one-hot rows. An actor gives K numbers (a Gaussian one 2 K), which `BoxActions` and `DiscreteActions` turn
into such codes and into distributions over the environment's own actions.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.models import torso
from rl.models.layers import ILLEGAL, Initializers, ObservationEncoder, dense
from rl.models.precision import precision_of
from rl.ops import random
from rl.ops.distributions import (
    Categorical,
    Deterministic,
    DiagonalGaussian,
    Distribution,
    Shaped,
    TanhGaussian,
)
from rl.ops.nests import flatten_time
from rl.types import Nest, Tensor

LOG_STD_LIMITS = (-20.0, 2.0)  # as in the code of Haarnoja et al. 2018


def box_range(space: spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    """Returns the low bounds of a Box and the halves of its ranges, float32 [K]; halves of infinity where it
    has no bounds, or none whose range is a number of float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = (each.astype(np.float32).reshape(-1) for each in (space.low, space.high))
        half = (high - low) / np.float32(2.0)
    return low, np.where(np.isfinite(half), half, np.float32(np.inf))


class BoxActions:
    """Actions of a bounded Box; their code has low at -1 and high at 1, and is -1 where these are equal.

    Raises:
        UsageError: a bound, or the range between two, is infinite in float32.
    """

    def __init__(self, space: spaces.Box, algo: str):
        low, half = box_range(space)
        if not np.isfinite(half).all():
            raise UsageError(
                f"{algo} squashes its actions into the space's bounds, and {space} has none: "
                "wrap the environment, or take ppo"
            )
        self.shape, self.size = tuple(space.shape), int(np.prod(space.shape))
        self.low, self.high = space.low.astype(np.float32), space.high.astype(np.float32)
        self._low, self._half = low, half  # [K]
        self._divisor = np.where(half > 0.0, half, np.float32(1.0))

    def encode(self, action: Tensor) -> Tensor:
        """Returns codes [N, K] of the environment's actions [N, *shape]."""
        flat = tf.reshape(action, [action.shape[0], self.size])
        return (flat - self._low) / self._divisor - 1.0

    def clipped_code(self, action: Tensor) -> Tensor:
        """Returns codes [N, K] of actions [N, *shape] clipped to the bounds, as the environment does."""
        return tf.clip_by_value(self.encode(action), -1.0, 1.0)

    def greedy(self, output: Tensor) -> Tensor:
        """Returns codes [N, K] of an actor's output [N, K]."""
        return tf.tanh(output)

    def relaxed(self, output: Tensor, seed: Tensor, temperature: float) -> Tensor:
        """Returns codes through which the gradient flows: here those of `greedy`."""
        return tf.tanh(output)

    def penalty(self, output: Tensor) -> Tensor:
        """Returns what an actor's output [N, K] costs in itself, [N]: here nothing."""
        return tf.zeros([output.shape[0]])

    def deterministic(self, output: Tensor) -> Distribution:
        """Returns a distribution over the environment's actions: all weight on one."""
        return self.certain(tf.tanh(output))

    def certain(self, code: Tensor) -> Distribution:
        """Returns a distribution over the environment's actions: all weight on the one of that code, [N,
        K]."""
        action = self._low + self._half * (code + 1.0)
        return Deterministic(tf.reshape(action, [code.shape[0], *self.shape]), self.low, self.high)

    def gaussian(self, codes: DiagonalGaussian) -> Distribution:
        """Returns a distribution over the environment's actions: what is normal over their codes [N, K]; some
        are out of bounds."""
        mean, log_std = self._low + self._half * (codes.mean + 1.0), codes.log_std + np.log(self._divisor)
        found = DiagonalGaussian(mean, log_std)
        return found if len(self.shape) == 1 else Shaped(found, self.shape)

    def squashed_gaussian(self, output: Tensor) -> TanhGaussian:
        """Returns a distribution over actions as vectors [N, K], from mean and log standard deviation side by
        side [N, 2 K]."""
        mean, log_std = tf.split(output, 2, -1)
        log_std = tf.clip_by_value(log_std, *LOG_STD_LIMITS)
        return TanhGaussian(mean, log_std, self.low.reshape(-1), self.high.reshape(-1))

    def stochastic(self, output: Tensor) -> Distribution:
        """Returns the distribution of `squashed_gaussian`, over actions in the environment's shape."""
        found = self.squashed_gaussian(output)
        return found if len(self.shape) == 1 else Shaped(found, self.shape)


class DiscreteActions:
    """Actions of a Discrete space; their code is a one-hot row."""

    def __init__(self, space: spaces.Discrete):
        self.size = int(space.n)

    def encode(self, action: Tensor) -> Tensor:
        """Returns codes [N, A] of actions int [N]."""
        return tf.one_hot(action, self.size)

    def clipped_code(self, action: Tensor) -> Tensor:
        """Returns codes [N, A] of actions int [N], which have no bounds to be clipped to."""
        return self.encode(action)

    def greedy(self, output: Tensor) -> Tensor:
        """Returns codes [N, A] of the likeliest actions by logits [N, A]."""
        return tf.one_hot(tf.argmax(output, -1, output_type=tf.int32), self.size)

    def relaxed(self, output: Tensor, seed: Tensor, temperature: float) -> Tensor:
        """Returns a sample's one-hot code [N, A], with the gradient of the Gumbel-softmax at `temperature`.

        The straight-through estimator of Jang et al. 2017, https://arxiv.org/abs/1611.01144, section 2.2.
        """
        noisy = output + random.gumbel(seed, output.shape)
        soft = tf.nn.softmax(noisy / temperature)  # [N, A]
        hard = self.greedy(noisy)
        return tf.stop_gradient(hard - soft) + soft

    def penalty(self, output: Tensor) -> Tensor:
        """Returns the mean square of the legal actions' logits, [N]: held small, they leave something to
        explore."""
        legal = tf.cast(output > ILLEGAL / 2, tf.float32)  # [N, A]
        total = tf.reduce_sum(tf.square(output * legal), -1)
        return total / tf.maximum(tf.reduce_sum(legal, -1), 1.0)

    def deterministic(self, output: Tensor) -> Distribution:
        """Returns a distribution over actions: the softmax, whose mode is the action and whose samples
        explore."""
        return Categorical(output)


def actions_of(space: spaces.Box | spaces.Discrete, algo: str) -> BoxActions | DiscreteActions:
    """Returns how actions of a space are coded.

    Raises:
        UsageError: it has no bounds, and `algo` needs them.
    """
    return DiscreteActions(space) if isinstance(space, spaces.Discrete) else BoxActions(space, algo)


class Actor(torso.TorsoNetwork):
    """Observations `[N, ...]` to `outputs` numbers per example; illegal actions' are `ILLEGAL`."""

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        outputs: int,
        initializers: Initializers,
        name: str = "network",
    ):
        super().__init__(name=name)
        self.encoder = encoder
        self.torso = torso.make_torso(hparams.model, encoder, initializers, "torso")
        self.policy = dense(self.torso.size, outputs, initializers.output(0.01), "policy")
        self.built = True

    def call(self, observation: Nest) -> Tensor:
        return self._head(self.torso(self.encoder(observation)), observation)

    def step(self, observation: Nest, state: Nest) -> tuple[Tensor, Nest]:
        """Returns outputs of one step `[N, outputs]`, and the next state."""
        features, state = torso.step(self.torso, self.encoder(observation), state)
        return self._head(features, observation), state

    def unroll(self, observation: Nest, state: Nest, mask: Tensor) -> tuple[Tensor, Nest]:
        """Returns outputs along a trajectory, `[T, B, outputs]`, and the state after it.

        observation `[T, B, ...]`, state `[B, ...]`, mask `[T, B]` (`rl.models.torso.unroll`).
        """
        features, state = torso.unroll_encoded(self.torso, self.encoder, observation, state, mask)
        output = self._head(features, flatten_time(observation))
        return tf.reshape(output, [*mask.shape, output.shape[-1]]), state

    def _head(self, features: Tensor, observation: Nest) -> Tensor:
        return self.encoder.mask_illegal(self.policy(features), observation)


class Critic(keras.Model):
    """`count` critics side by side: observations `[N, ...]`, codes of actions `[N, K]` to values.

    Over a flat observation with the model mlp, each critic has the layers `model.value_hidden`, or else
    `model.hidden`, of its own, the action beside the observation from the first one on. Other models and
    observations of several parts: one torso for all critics, then a hidden layer and an output for each, the
    action beside the torso's features.

    Args:
        action_size: K; 0 for critics that value all actions of a state at once.
        outputs: values per example.
        count: critics.
        linear: the value is linear in the action, whose code weighs the last layer's outputs. For one-hot
            codes that restricts nothing, and the slope towards another action is the difference of values.
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        action_size: int,
        initializers: Initializers,
        count: int = 1,
        outputs: int = 1,
        linear: bool = False,
        name: str = "critic",
    ):
        super().__init__(name=name)
        self.encoder, self.torso, self.linear = encoder, None, linear
        if linear:
            action_size, outputs = 0, action_size
        model = torso.of_value(hparams.model)
        width, hidden = encoder.size, model.hidden
        if model.name != "mlp" or len(encoder.shapes) > 1:
            self.torso = torso.make_torso(model, encoder, initializers, "torso")
            width, hidden = self.torso.size, (self.torso.size,)
        width += action_size
        self.hidden = []
        activation, rest = model.activation, (model.layer_norm, precision_of(model))
        for i, units in enumerate(hidden):
            starts = [initializers.hidden(activation) for _ in range(count)]
            self.hidden.append(EnsembleDense(width, units, starts, f"dense_{i}", activation, *rest))
            width = units
        self.value = EnsembleDense(width, outputs, [initializers.output(1.0) for _ in range(count)], "value")
        self.built = True

    def call(self, observation: Nest, action: Tensor | None = None, members: int | None = None) -> Tensor:
        """Returns values `[count, N, outputs]`, of the first `members` critics where that is given."""
        x = self.encoder(observation)
        if self.torso is not None:
            x = self.torso(x)
        return self._values(x, action, members)

    def initial_state(self, count: int) -> Nest:
        """Returns the state of the torso at the start of `count` episodes; () where it keeps none."""
        return () if self.torso is None else torso.initial_state(self.torso, count)

    def step(self, observation: Nest, state: Nest, action: Tensor) -> tuple[Tensor, Nest]:
        """Returns values of one step `[count, N, outputs]`, and the next state."""
        x = self.encoder(observation)
        if self.torso is not None:
            x, state = torso.step(self.torso, x, state)
        return self._values(x, action), state

    def unroll(self, observation: Nest, state: Nest, mask: Tensor, action: Tensor) -> tuple[Tensor, Nest]:
        """Returns values along a trajectory, `[count, T, B, outputs]`, and the state after it.

        observation `[T, B, ...]`, state `[B, ...]`, mask `[T, B]` (`rl.models.torso.unroll`), codes of
        actions `[T, B, K]`.
        """
        if self.torso is None:
            x = self.encoder(flatten_time(observation))  # [T * B, F]
        else:
            x, state = torso.unroll_encoded(self.torso, self.encoder, observation, state, mask)
        values = self._values(x, flatten_time(action))  # [count, T * B, outputs]
        return tf.reshape(values, [values.shape[0], *mask.shape, values.shape[-1]]), state

    def _values(self, x: Tensor, action: Tensor | None, members: int | None = None) -> Tensor:
        if action is not None and not self.linear:
            x = tf.concat([x, action], -1)  # [N, F + K]
        for layer in self.hidden:
            x = layer(x, members=members)
        x = self.value(x, members=members)
        return tf.reduce_sum(x * action, -1, keepdims=True) if self.linear else x


class EnsembleDense(keras.layers.Layer):
    """As many dense layers side by side as `starts`, in one batched product: `[N, F]` (the same for all) or
    `[count, N, F]` to `[count, N, units]`; with `layer_norm`, normalised before the activation. The product
    is computed in `precision`, all else in float32."""

    def __init__(
        self,
        inputs: int,
        units: int,
        starts: list[Any],
        name: str,
        activation: str | None = None,
        layer_norm: bool = False,
        precision: str = "float32",
    ):
        super().__init__(name=name)
        self.precision = precision
        self.activation = keras.activations.get(activation)
        count = len(starts)

        def start(shape: tuple[int, ...], dtype: Any = None) -> Tensor:
            return tf.stack([tf.convert_to_tensor(each(shape[1:], dtype)) for each in starts])

        self.kernel = self.add_weight(shape=(count, inputs, units), initializer=start, name="kernel")
        self.bias = self.add_weight(shape=(count, 1, units), initializer="zeros", name="bias")
        self.scale = None
        if layer_norm:
            self.scale = self.add_weight(shape=(count, 1, units), initializer="ones", name="scale")
            self.offset = self.add_weight(shape=(count, 1, units), initializer="zeros", name="offset")
        self.built = True

    def call(self, x: Tensor, members: int | Tensor | None = None) -> Tensor:
        """Computes the layers' outputs. members: the first so many layers alone, or those of an int32 tensor;
        None: all."""

        def of(weight: Any) -> Tensor:
            value = tf.convert_to_tensor(weight)
            return tf.gather(value, members) if tf.is_tensor(members) else value[:members]

        narrow = (tf.cast(each, self.precision) for each in (x, of(self.kernel)))
        x = tf.cast(tf.matmul(*narrow), tf.float32) + of(self.bias)
        if self.scale is not None:
            mean, variance = tf.nn.moments(x, -1, keepdims=True)  # [count, N, 1]
            x = (x - mean) * tf.math.rsqrt(variance + 1e-5) * of(self.scale) + of(self.offset)
        return self.activation(x)
