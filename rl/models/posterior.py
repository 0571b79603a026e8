"""Posteriors of linear rewards, as the networks of agents."""

from __future__ import annotations

import keras
import tensorflow as tf

from rl.hparams.hparams import HParams
from rl.models.layers import Initializers, ObservationEncoder, dense
from rl.models.torso import make_torso
from rl.ops import linear_bandit
from rl.types import Tensor


class LinearPosterior(keras.Model):
    """The posterior of K arms' parameters, of n numbers each: no weight of it is learned by gradients."""

    def __init__(self, arms: int, size: int, prior_precision: float, name: str = "network"):
        super().__init__(name=name)
        start = tf.eye(size, batch_shape=[arms])
        self.precision, self.b, self.mean, self.root = (
            self.add_weight(shape=shape, initializer="zeros", trainable=False, name=each)
            for each, shape in {
                "precision": (arms, size, size),
                "b": (arms, size),
                "mean": (arms, size),
                "root": (arms, size, size),
            }.items()
        )
        self.precision.assign(prior_precision * start)
        self.root.assign(start / prior_precision**0.5)
        self.built = True

    def call(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns expected rewards of the arms for features [N, n], and the deviations of these, [N, K]
        each."""
        mean, root = (tf.convert_to_tensor(each) for each in (self.mean, self.root))
        return linear_bandit.scores(x, mean, root)

    def renew(self, precision: Tensor, b: Tensor) -> None:
        """Takes A [K, n, n] and b [K, n] (Li et al. 2010, algorithm 1), and what follows from them."""
        mean, root = linear_bandit.posterior(precision, b)
        for variable, value in zip(
            (self.precision, self.b, self.mean, self.root), (precision, b, mean, root), strict=True
        ):
            variable.assign(value)


class NeuralPosterior(LinearPosterior):
    """The posterior of rewards that are linear in the last hidden layer of a network, which gradients train
    to expect these rewards itself."""

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        arms: int,
        prior_precision: float,
        initializers: Initializers,
        name: str = "network",
    ):
        torso = make_torso(hparams.model, encoder, initializers, "torso")
        super().__init__(arms, torso.size + 1, prior_precision, name)
        self.torso = torso
        self.rewards = dense(torso.size, arms, initializers.output(1.0), "rewards")

    def features(self, x: Tensor) -> Tensor:
        """Returns the last hidden layer for encoded observations [N, ...], and a constant 1: [N, n]."""
        hidden = self.torso(x)
        return tf.concat([hidden, tf.ones_like(hidden[:, :1])], 1)

    def fitted(self, x: Tensor) -> Tensor:
        """Returns the rewards that the network itself expects for encoded observations [N, ...]: [N, K]."""
        rewards: Tensor = self.rewards(self.torso(x))
        return rewards
