"""The residual convolutional network of IMPALA, without its LSTM.

Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, figure 3, right.
"""

from __future__ import annotations

import keras
import tensorflow as tf
from keras import ops

from rl.hparams.hparams import ModelHParams
from rl.models.images import ImageTorso, convolution
from rl.models.layers import Initializers
from rl.models.registry import register
from rl.types import Tensor

FILTERS = (16, 32, 32)


class Section(keras.layers.Layer):
    """A convolution, halved by a maximum over 3 x 3, then two residual blocks."""

    def __init__(self, filters: int, activation: str, initializers: Initializers, name: str):
        super().__init__(name=name)
        self.activation, self.filters = keras.activations.get(activation), filters

        def layer(part: str) -> keras.layers.Conv2D:
            return convolution(filters, 3, 1, initializers.hidden(activation), part, None, "same")

        self.enter = layer("enter")
        self.blocks = [(layer(f"block_{i}_first"), layer(f"block_{i}_second")) for i in range(2)]

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.enter.build(shape)
        for each in (each for block in self.blocks for each in block):
            each.build(self.compute_output_shape(shape))
        self.built = True

    def compute_output_shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        count, height, width, _ = shape
        return (count, -(-height // 2), -(-width // 2), self.filters)  # type: ignore[operator]

    def call(self, x: Tensor) -> Tensor:
        x = ops.max_pool(self.enter(x), 3, 2, "same", data_format="channels_last")
        for first, second in self.blocks:
            x = x + second(self.activation(first(self.activation(x))))
        return x


@register
class ImpalaCNN(ImageTorso):
    """Residual convolutions in sections that halve the image, made for 64 x 64; then layers `model.hidden`.

    Three sections of 16, 32 and 32 filters; the paper's dense layer has 256 units.
    """

    def __init__(self, model: ModelHParams, inputs: tuple[int, ...], initializers: Initializers, name: str):
        # TensorFlow's graph optimizer would join convolution, sum and activation, fails at it with an error
        # on the terminal, and gains nothing where it succeeds.
        tf.config.optimizer.set_experimental_options({"remapping": False})
        super().__init__(model, inputs, initializers, name)

    def convolutions(self, model: ModelHParams, initializers: Initializers) -> list[keras.layers.Layer]:
        sections: list[keras.layers.Layer] = [
            Section(count, model.activation, initializers, f"section_{i}")
            for i, count in enumerate(model.filters or FILTERS)
        ]
        return [*sections, keras.layers.Activation(model.activation, name="last")]
