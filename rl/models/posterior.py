"""The posterior of linear rewards, as the network of an agent."""

from __future__ import annotations

import keras
import tensorflow as tf

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
        """Expected rewards of the arms for features [N, n], and the deviations of these, [N, K] each."""
        mean, root = (tf.convert_to_tensor(each) for each in (self.mean, self.root))
        return linear_bandit.scores(x, mean, root)
