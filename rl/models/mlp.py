"""The multi-layer perceptron."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from rl.hparams.hparams import ModelHParams
from rl.models.layers import Initializers, dense, normalized_dense
from rl.models.registry import register
from rl.types import Tensor


@register
def mlp(model: ModelHParams, inputs: tuple[int, ...], initializers: Initializers, name: str) -> Torso:
    """Fully connected layers, `model.hidden` wide, over the flattened observation."""
    return Torso(model, inputs, initializers, name)


class Torso(keras.layers.Layer):
    """Dense layers `[N, *inputs]` -> `[N, size]`."""

    def __init__(self, model: ModelHParams, inputs: tuple[int, ...], initializers: Initializers, name: str):
        super().__init__(name=name)
        self.layers = []
        width = math.prod(inputs)
        with keras.name_scope(name):  # variables are saved under TORSO/dense_0/kernel
            for i, units in enumerate(model.hidden):
                initializer = initializers.hidden(model.activation)
                if model.layer_norm:
                    self.layers += normalized_dense(width, units, initializer, f"dense_{i}", model.activation)
                else:
                    self.layers.append(dense(width, units, initializer, f"dense_{i}", model.activation))
                width = units
        self.size = width
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        x = tf.reshape(x, [x.shape[0], math.prod(x.shape[1:])])  # [N, F]
        for layer in self.layers:
            x = layer(x)
        return x
