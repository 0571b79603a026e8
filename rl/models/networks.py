"""Whole networks: encoder, torso named in hparams, heads. `[N, ...]` observations in, heads' outputs out."""

from __future__ import annotations

from typing import NamedTuple

import keras
import tensorflow as tf
from gymnasium import spaces

from rl.hparams.hparams import HParams
from rl.models.layers import Initializers, NoisyDense, ObservationEncoder, dense
from rl.models.registry import get_model
from rl.ops.distributions import parameter_count
from rl.types import Nest, Tensor


class QNetwork(keras.Model):
    """Action values: observations `[N, ...]` to `[N, actions]` (or `[N, actions, atoms]`).

    With `dueling`, value and advantage streams with the advantage's mean taken off (Wang et al. 2016,
    equation 9); with `noisy`, the layers after the torso are noisy (Fortunato et al. 2018).
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        actions: int,
        initializers: Initializers,
        atoms: int = 1,
        dueling: bool = False,
        noisy_sigma: float | None = None,
        name: str = "network",
    ):
        super().__init__(name=name)
        self.encoder, self.actions, self.atoms = encoder, actions, atoms
        self.torso = get_model(hparams.model.name)(hparams.model, (encoder.size,), initializers, "torso")
        self.dueling = dueling
        width = self.torso.size

        def layer(units: int, layer_name: str, activation: str | None = None) -> keras.layers.Layer:
            if noisy_sigma is not None:
                return NoisyDense(width, units, initializers, noisy_sigma, layer_name, activation)
            start = initializers.output(1.0) if activation is None else initializers.hidden(activation)
            return dense(width, units, start, layer_name, activation)

        if dueling:  # a hidden layer for each stream: two linear layers would amount to one
            self.value_hidden = layer(width, "value_hidden", hparams.model.activation)
            self.advantage_hidden = layer(width, "advantage_hidden", hparams.model.activation)
            self.value = layer(atoms, "value")
        self.advantage = layer(actions * atoms, "advantage" if dueling else "q_values")
        self._noisy = noisy_sigma is not None
        self.built = True

    def call(self, observation: Nest, training: bool = False) -> Tensor:
        x = self.torso(self.encoder(observation))  # [N, F]
        mode = {"training": training} if self._noisy else {}
        features = self.advantage_hidden(x, **mode) if self.dueling else x
        q_values = tf.reshape(self.advantage(features, **mode), [x.shape[0], self.actions, self.atoms])
        if self.dueling:
            value = self.value(self.value_hidden(x, **mode), **mode)[:, None, :]  # [N, 1, atoms]
            q_values = value + q_values - tf.reduce_mean(q_values, 1, keepdims=True)
        return q_values[:, :, 0] if self.atoms == 1 else q_values


class ActorCriticOutput(NamedTuple):
    parameters: Tensor  # [N, K] of the action distribution
    log_std: Tensor | None  # [A] for Box actions
    value: Tensor  # [N]


class ActorCritic(keras.Model):
    """Policy and value heads on one torso (`model.shared`) or on one each.

    The policy's output layer starts near zero (gain 0.01), so that the first policy is close to uniform
    (Andrychowicz et al. 2021, section 3.2). For Box actions the log standard deviation is a parameter of
    its own, independent of the observation.
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        action_space: spaces.Space,
        initializers: Initializers,
        log_std_init: float,
        name: str = "network",
    ):
        super().__init__(name=name)
        self.encoder = encoder
        make = get_model(hparams.model.name)
        inputs = (encoder.size,)
        self.torso = make(hparams.model, inputs, initializers, "torso")
        self.value_torso = None
        if not hparams.model.shared:
            self.value_torso = make(hparams.model, inputs, initializers, "value_torso")
        width, count = self.torso.size, parameter_count(action_space)
        self.policy = dense(width, count, initializers.output(0.01), "policy")
        self.value = dense(width, 1, initializers.output(1.0), "value")
        self.log_std = None
        if isinstance(action_space, spaces.Box):
            start = keras.initializers.Constant(log_std_init)
            self.log_std = self.add_weight(shape=(count,), initializer=start, name="log_std")
        self.built = True

    def call(self, observation: Nest) -> ActorCriticOutput:
        x = self.encoder(observation)
        features = self.torso(x)  # [N, F]
        value_features = features if self.value_torso is None else self.value_torso(x)
        log_std = None if self.log_std is None else tf.convert_to_tensor(self.log_std)
        return ActorCriticOutput(self.policy(features), log_std, self.value(value_features)[:, 0])
