"""Whole networks: encoder, torso named in hparams, heads. `[N, ...]` observations in, heads' outputs out."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf
from gymnasium import spaces

from rl.hparams.hparams import HParams
from rl.models import torso
from rl.models.layers import Initializers, NoisyDense, ObservationEncoder, dense
from rl.ops.distributions import parameter_count
from rl.ops.nests import flatten_time
from rl.types import Nest, Tensor, Trajectory


class QNetwork(torso.TorsoNetwork):
    """Action values: observations `[N, ...]` to `[N, actions]` (or `[N, actions, atoms]`).

    With `dueling`, value and advantage streams with the advantage's mean taken off (Wang et al. 2016,
    equation 9); with `noisy`, the layers after the torso are noisy (Fortunato et al. 2018). Values of
    illegal actions are `ILLEGAL` (with `atoms` that is up to the caller).
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
        self.torso = torso.make_torso(hparams.model, encoder, initializers, "torso")
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
        return self._head(self.torso(self.encoder(observation)), observation, training)

    def step(self, observation: Nest, state: Nest, training: bool = False) -> tuple[Tensor, Nest]:
        """Returns values of one step, and the next state."""
        features, state = torso.step(self.torso, self.encoder(observation), state)
        return self._head(features, observation, training), state

    def unroll(
        self, observation: Nest, state: Nest, mask: Tensor, training: bool = False
    ) -> tuple[Tensor, Nest]:
        """Returns values along a trajectory, `[T, B, actions(, atoms)]`, and the state after it.

        observation `[T, B, ...]`, state `[B, ...]`, mask `[T, B]` (`rl.models.torso.unroll`).
        """
        features, state = torso.unroll_encoded(self.torso, self.encoder, observation, state, mask)
        values = self._head(features, flatten_time(observation), training)
        return tf.reshape(values, [*mask.shape, *values.shape[1:]]), state

    def _head(self, x: Tensor, observation: Nest, training: bool) -> Tensor:
        mode = {"training": training} if self._noisy else {}
        features = self.advantage_hidden(x, **mode) if self.dueling else x
        q_values = tf.reshape(self.advantage(features, **mode), [x.shape[0], self.actions, self.atoms])
        if self.dueling:
            value = self.value(self.value_hidden(x, **mode), **mode)[:, None, :]  # [N, 1, atoms]
            q_values = value + q_values - tf.reduce_mean(q_values, 1, keepdims=True)
        return self.encoder.mask_illegal(q_values[:, :, 0], observation) if self.atoms == 1 else q_values


class ActorCriticOutput(NamedTuple):
    """What policy and value heads say of N observations."""

    parameters: Tensor  # [N, K] of the action distribution
    log_std: Tensor | None  # [A] for Box actions
    value: Tensor  # [N]
    state: Nest  # of the torsos, after these observations; () where they keep none
    auxiliary_value: Tensor | None = None  # [N] by a second value head on the policy's torso, if there is one


class ActorCritic(keras.Model):
    """Policy and value heads on one torso (`model.shared`) or on one each.

    The policy's output layer starts near zero (gain 0.01), so that the first policy is close to uniform
    (Andrychowicz et al. 2021, section 3.2). For Box actions the log standard deviation is a parameter of
    its own, independent of the observation.

    `policy_encoder`: of what the policy sees, where the value sees more (`rl.models.joint.WithoutParts`).
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        action_space: spaces.Space,
        initializers: Initializers,
        log_std_init: float,
        name: str = "network",
        policy_encoder: Any = None,
    ):
        super().__init__(name=name)
        self.encoder, self.policy_encoder = encoder, encoder if policy_encoder is None else policy_encoder
        self.torso = torso.make_torso(hparams.model, self.policy_encoder, initializers, "torso")
        self.value_torso = None
        if not hparams.model.shared:
            self.value_torso = torso.make_torso(
                torso.of_value(hparams.model), encoder, initializers, "value_torso"
            )
        count, valued = parameter_count(action_space), self.value_torso or self.torso
        self.policy = dense(self.torso.size, count, initializers.output(0.01), "policy")
        self.value = dense(valued.size, 1, initializers.output(1.0), "value")
        self.log_std = None
        if isinstance(action_space, spaces.Box):
            start = keras.initializers.Constant(log_std_init)
            self.log_std = self.add_weight(shape=(count,), initializer=start, name="log_std")
        self.built = True

    @property
    def value_variables(self) -> list[Any]:
        """The trainable variables that the value alone depends on."""
        own = [] if self.value_torso is None else self.value_torso.trainable_variables
        return [*own, *self.value.trainable_variables]

    def initial_state(self, count: int) -> Nest:
        """Returns states of the torsos at the start of `count` episodes; () where they keep none."""
        if not torso.is_recurrent(self.torso):
            return ()
        return tuple(torso.initial_state(each, count) for each in self._torsos())

    def call(self, observation: Nest, state: Nest = ()) -> ActorCriticOutput:
        seen = self._seen(observation)
        found = [torso.step(each, x, part) for (each, part), x in zip(self._paired(state), seen, strict=True)]
        return self._heads([each for each, _ in found], [state for _, state in found], observation)

    def unroll(self, observation: Nest, state: Nest, mask: Tensor) -> ActorCriticOutput:
        """Returns outputs along a trajectory, flat: `[T * B, ...]`, and the state after it.

        observation `[T, B, ...]`, state `[B, ...]`, mask `[T, B]` (`rl.models.torso.unroll`).
        """
        flat = flatten_time(observation)
        seen = [tf.reshape(x, [*mask.shape, x.shape[-1]]) for x in self._seen(flat)]  # [T, B, F]
        pairs = zip(self._paired(state), seen, strict=True)
        found = [torso.unroll(each, x, part, mask) for (each, part), x in pairs]
        return self._heads([each for each, _ in found], [state for _, state in found], flat)

    def last_value(self, trajectory: Trajectory) -> Tensor:
        """Returns the value of the observation after a trajectory's last step, `[B]`."""
        if not torso.is_recurrent(self.torso):
            return self(tf.nest.map_structure(lambda x: x[-1], trajectory.observation)).value
        mask = tf.concat([trajectory.mask, tf.ones_like(trajectory.mask[:1])], 0)  # [T+1, B]
        output = self.unroll(trajectory.observation, trajectory.recurrent_state, mask)
        return tf.reshape(output.value, mask.shape)[-1]

    def _seen(self, observation: Nest) -> list[Tensor]:
        """What each torso sees, [N, F]."""
        x = self.policy_encoder(observation)
        if self.value_torso is None:
            return [x]
        return [x, x if self.policy_encoder is self.encoder else self.encoder(observation)]

    def _torsos(self) -> list[keras.layers.Layer]:
        return [self.torso] if self.value_torso is None else [self.torso, self.value_torso]

    def _paired(self, state: Nest) -> list[tuple[keras.layers.Layer, Nest]]:
        torsos = self._torsos()
        parts = state if torso.is_recurrent(self.torso) else [()] * len(torsos)
        return list(zip(torsos, parts, strict=True))

    def _heads(self, features: list[Tensor], states: list[Nest], observation: Nest) -> ActorCriticOutput:
        log_std = None if self.log_std is None else tf.convert_to_tensor(self.log_std)
        parameters = self.encoder.mask_illegal(self.policy(features[0]), observation)
        state = tuple(states) if torso.is_recurrent(self.torso) else ()
        return ActorCriticOutput(parameters, log_std, self.value(features[-1])[:, 0], state)


class PhasicActorCritic(ActorCritic):
    """An `ActorCritic` with a second value head, on the policy's torso, for phasic policy gradient (Cobbe et
    al. 2020, https://arxiv.org/abs/2009.04416).

    With `model.shared` no gradient of the first value passes into the torso: what the torso learns of values,
    it learns through the second head.
    """

    def __init__(self, hparams: HParams, encoder: ObservationEncoder, action_space: spaces.Space,
                 initializers: Initializers, log_std_init: float, name: str = "network"):  # fmt: skip
        super().__init__(hparams, encoder, action_space, initializers, log_std_init, name)
        self.auxiliary = dense(self.torso.size, 1, initializers.output(1.0), "auxiliary")
        self.built = True

    def _heads(self, features: list[Tensor], states: list[Nest], observation: Nest) -> ActorCriticOutput:
        first, last = features[0], features[-1]
        detached = tf.stop_gradient(last) if self.value_torso is None else last
        output = super()._heads([first, detached], states, observation)
        return output._replace(auxiliary_value=self.auxiliary(first)[:, 0])
