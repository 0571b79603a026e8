"""Implicit quantile networks: action values at any quantile fraction."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from rl.hparams.hparams import HParams
from rl.models.layers import Initializers, ObservationEncoder, dense
from rl.models.networks import QNetwork
from rl.types import Nest, Tensor


class CosineEmbedding(keras.layers.Layer):
    """relu(sum_i cos(pi i fraction) w_ij + b_j), i = 0 .. cosines - 1 (Dabney et al. 2018b, equation 4).

    fraction `[N, F]` to `[N, F, units]`.
    """

    def __init__(self, cosines: int, units: int, initializers: Initializers, name: str):
        super().__init__(name=name)
        with keras.name_scope(name):
            self.dense = dense(cosines, units, initializers.hidden("relu"), "dense", "relu")
        self.frequency = np.pi * np.arange(cosines, dtype=np.float32)
        self.built = True

    def call(self, fraction: Tensor) -> Tensor:
        count, fractions = fraction.shape
        cosines = tf.cos(tf.reshape(fraction, [-1, 1]) * self.frequency)  # [N * F, cosines]
        return tf.reshape(self.dense(cosines), [count, fractions, -1])


class QuantileNetwork(QNetwork):
    """Action values at quantile fractions: observations `[N, ...]`, fraction `[N, F]` to `[N, actions, F]`.

    The torso's features are multiplied by the fraction's cosine embedding; the heads of `QNetwork` (dueling,
    noisy) follow. Values of illegal actions are `ILLEGAL` at every fraction.
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        actions: int,
        initializers: Initializers,
        cosines: int,
        dueling: bool = False,
        noisy_sigma: float | None = None,
        name: str = "network",
    ):
        super().__init__(
            hparams, encoder, actions, initializers, dueling=dueling, noisy_sigma=noisy_sigma, name=name
        )
        self.embedding = CosineEmbedding(cosines, self.torso.size, initializers, "embedding")

    def call(  # type: ignore[override]
        self, observation: Nest, fraction: Tensor, training: bool = False
    ) -> Tensor:
        count, fractions = fraction.shape
        features = self.torso(self.encoder(observation))  # [N, W]
        x = features[:, None, :] * self.embedding(fraction)  # [N, F, W]
        x = tf.reshape(x, [count * fractions, features.shape[-1]])
        rows = observation
        if self.encoder.masked:  # the heads apply the mask, which each fraction needs
            rows = tf.nest.map_structure(lambda each: tf.repeat(each, fractions, 0), observation)
        values = self._head(x, rows, training)  # [N * F, A]
        return tf.transpose(tf.reshape(values, [count, fractions, self.actions]), [0, 2, 1])
