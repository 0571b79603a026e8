"""A policy alone: observations to distributions over actions of any kind, for what learns from data."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.hparams.hparams import HParams
from rl.models import torso
from rl.models.continuous import box_range
from rl.models.layers import Initializers, ObservationEncoder, dense
from rl.ops import distributions
from rl.ops.distributions import Distribution, parameter_count
from rl.ops.nests import flatten_time
from rl.types import Nest, Tensor

LOG_STD_LIMITS = (-5.0, 2.0)  # of actions in half ranges: data that agree on an action ask for no deviation


class PolicyNetwork(torso.TorsoNetwork):
    """Observations `[N, ...]` to the distribution over actions of `action_space`.

    Discrete actions have logits. Those of a Box have independent normals, whose deviations do not depend on
    the observation; where the Box is bounded, means lie within it (through tanh), and deviations are in its
    half ranges. A sample may lie outside: environments take it for the nearest action that they have.
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        action_space: Any,
        initializers: Initializers,
        name: str = "network",
    ):
        super().__init__(name=name)
        self.encoder, self.space = encoder, action_space
        self.torso = torso.make_torso(hparams.model, encoder, initializers, "torso")
        count = parameter_count(action_space)
        self.policy = dense(self.torso.size, count, initializers.output(0.01), "policy")
        self.log_std = None
        if isinstance(action_space, spaces.Box):
            self.log_std = self.add_weight(shape=(count,), initializer="zeros", name="log_std")
            self._low, self._half = box_range(action_space)
            self._bounded = bool(np.isfinite(self._half).all())
        self.built = True

    def call(self, observation: Nest, state: Nest = ()) -> Distribution:
        return self.step(observation, state)[0]

    def step(self, observation: Nest, state: Nest) -> tuple[Distribution, Nest]:
        """Returns the distribution at observations [N, ...], and the torso's state after them."""
        features, state = torso.step(self.torso, self.encoder(observation), state)
        return self.distribution(features, observation), state

    def unroll(self, observation: Nest, state: Nest, mask: Tensor) -> tuple[Distribution, Nest]:
        """Returns the distribution along trajectories, flat [T * B], and the torso's state after them.

        observation `[T, B, ...]`, state `[B, ...]`, mask `[T, B]` (`rl.models.torso.unroll`).
        """
        features, state = torso.unroll_encoded(self.torso, self.encoder, observation, state, mask)
        return self.distribution(features, flatten_time(observation)), state

    def distribution(self, features: Tensor, observation: Nest) -> Distribution:
        """Returns the distribution by the torso's features [N, F] of the observations."""
        return distributions.of_space(self.space, *self._numbers(features, observation))

    def numbers(self, observation: Nest) -> list[Tensor]:
        """Returns what `rl.ops.distributions.of_space` is given, [N, K] each, at observations [N, ...]."""
        features, _ = torso.step(self.torso, self.encoder(observation), ())
        parameters, *rest = self._numbers(features, observation)
        return [parameters, *[each + tf.zeros_like(parameters) for each in rest]]

    def _numbers(self, features: Tensor, observation: Nest) -> list[Tensor]:
        parameters = self.policy(features)
        if self.log_std is None:
            return [self.encoder.mask_illegal(parameters, observation)]
        log_std = tf.clip_by_value(tf.convert_to_tensor(self.log_std), *LOG_STD_LIMITS)
        if self._bounded:
            parameters = self._low + self._half * (tf.tanh(parameters) + 1.0)
            log_std += np.log(np.where(self._half > 0.0, self._half, 1.0))
        return [parameters, log_std]
