"""Dynamics learned by an ensemble of probabilistic networks (`rl/ops/dynamics.py`).

Chua et al. 2018, https://arxiv.org/abs/1805.12114, section 4, with the reward as one more prediction, as in
Janner et al. 2019, https://arxiv.org/abs/1906.08253.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from rl.models.continuous import EnsembleDense
from rl.models.layers import Initializers, ObservationEncoder
from rl.ops.dynamics import gaussian_loss, soft_clip
from rl.ops.normalize import Moments, observe_moments
from rl.types import Batch, Nest, Tensor

LOG_VARIANCE = (-10.0, 0.5)  # bounds, of what is in units of its deviation


class Predicted(NamedTuple):
    """What M members say of N steps; differences and rewards in units of their deviation."""

    mean: Tensor  # [M, N, F + 1] of the observation's difference and the reward
    log_variance: Tensor  # [M, N, F + 1]
    ends: Tensor  # [M, N] logit of a terminal state


class Standard(keras.layers.Layer):
    """Numbers in units of the deviation that they had so far, around their mean: `[..., size]`."""

    def __init__(self, size: int, name: str):
        super().__init__(name=name, trainable=False)
        add, row = self.add_weight, (size,)
        self.moments = Moments(
            mean=add(shape=row, initializer="zeros", name="mean"),
            variance=add(shape=row, initializer="ones", name="variance"),
            count=add(shape=(), initializer="zeros", dtype="int64", name="count"),
            mean_rest=add(shape=row, initializer="zeros", name="mean_rest"),
            variance_rest=add(shape=row, initializer="zeros", name="variance_rest"),
        )
        self.built = True

    def observe(self, x: Tensor, weight: Tensor) -> None:
        """Takes rows [N, size] into the statistics; weight [N] of 0 or 1."""
        observe_moments(self.moments, x, weight)

    def call(self, x: Tensor) -> Tensor:
        mean, variance = (tf.convert_to_tensor(each) for each in self.moments[:2])
        return (x - mean) * tf.math.rsqrt(variance + 1e-8)

    def original(self, x: Tensor) -> Tensor:
        """Returns the numbers themselves, of those in units of the deviation."""
        mean, variance = (tf.convert_to_tensor(each) for each in self.moments[:2])
        return mean + x * tf.sqrt(variance + 1e-8)


class Dynamics(keras.Model):
    """`members` networks, each from an observation and the code of an action to what follows.

    Args:
        hidden: units of each network's hidden layers.
        space: of the observations, of which every number is predicted.
        actions: K, width of an action's code.
    """

    def __init__(
        self, members: int, hidden: tuple[int, ...], space: Any, actions: int, initializers: Initializers
    ):
        super().__init__(name="dynamics")
        self.members = members
        self.seen = ObservationEncoder(space, normalize=False, name="seen")
        self.size = self.seen.size + 1  # of what a Gaussian is predicted of, F + 1
        with keras.name_scope("dynamics"):
            self.given = Standard(self.seen.size + actions, "given")
            self.change = Standard(self.size, "change")
            self.hidden, width = [], self.seen.size + actions
            for i, units in enumerate(hidden):
                starts = [initializers.hidden("silu") for _ in range(members)]
                self.hidden.append(EnsembleDense(width, units, starts, f"dense_{i}", "silu"))
                width = units
            starts = [initializers.output(1.0) for _ in range(members)]
            self.out = EnsembleDense(width, 2 * self.size + 1, starts, "out")
        self.built = True

    def observe(self, batch: Batch, code: Tensor) -> None:
        """Takes transitions, with the codes of their actions, into what deviations are measured by."""
        self.given.observe(self._joined(batch.observation, code), batch.mask)
        self.change.observe(self._change(batch), batch.mask)

    def call(self, observation: Nest, code: Tensor, members: Tensor | None = None) -> Predicted:
        """Returns what `members`, int32 [M], say of observations [N, ...] and codes [N, K]; None: all of
        them."""
        return self._predicted(self._given(observation, code), members)

    def apart(self, observation: Nest, code: Tensor) -> Predicted:
        """Returns what each member says of N observations and codes of its own, [M * N, ...] and [M * N, K];
        the first N are the first member's."""
        x = self._given(observation, code)
        return self._predicted(tf.reshape(x, [self.members, -1, x.shape[-1]]))

    def _predicted(self, x: Tensor, members: Tensor | None = None) -> Predicted:
        """Of inputs in units of their deviation, [N, F + K], or [M, N, F + K] of which each has its own."""
        for layer in self.hidden:
            x = layer(x, members=members)
        mean, log_variance, ends = tf.split(self.out(x, members=members), [self.size, self.size, 1], -1)
        return Predicted(mean, soft_clip(log_variance, *LOG_VARIANCE), ends[..., 0])

    def losses(self, batch: Batch, code: Tensor) -> Tensor:
        """Returns each member's loss of each transition, [M, N]: -log of its Gaussian's density at the
        change, without the constant, and the cross-entropy of terminal states."""
        predicted = self(batch.observation, code)
        gaussian = gaussian_loss(predicted.mean, predicted.log_variance, self.target(batch))
        ended = tf.cast(batch.discount == 0.0, tf.float32)  # [N] without a discount, all of them
        ends = tf.nn.softplus(predicted.ends) - ended * predicted.ends  # [M, N] cross-entropy
        return gaussian + ends

    def target(self, batch: Batch) -> Tensor:
        """Returns what `Predicted.mean` should be, [N, F + 1]."""
        return self.change(self._change(batch))

    def following(self, observation: Nest, change: Tensor) -> tuple[Nest, Tensor]:
        """Returns (next observation [N, ...], reward [N]) after a change [N, F + 1] in units of the
        deviation."""
        change = self.change.original(change)
        return self.seen.decode(self.seen(observation) + change[:, :-1]), change[:, -1]

    def _given(self, observation: Nest, code: Tensor) -> Tensor:
        """What the networks see, [N, F + K]; what is far off is held back, unlike what they are to tell."""
        return tf.clip_by_value(self.given(self._joined(observation, code)), -10.0, 10.0)

    def _joined(self, observation: Nest, code: Tensor) -> Tensor:
        return tf.concat([self.seen(observation), tf.clip_by_value(code, -1.0, 1.0)], -1)

    def _change(self, batch: Batch) -> Tensor:
        difference = self.seen(batch.next_observation) - self.seen(batch.observation)
        return tf.concat([difference, batch.reward[:, None]], -1)
