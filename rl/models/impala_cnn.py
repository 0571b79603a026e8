"""The residual convolutional network of IMPALA, without its LSTM.

Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, figure 3, right.
"""

from __future__ import annotations

import keras
from keras import ops

from rl.hparams.hparams import ModelHParams
from rl.models.images import ImageTorso, convolution
from rl.models.layers import Initializers
from rl.models.registry import register
from rl.types import Tensor

FILTERS = (16, 32, 32)


class Section(keras.layers.Layer):
    """A convolution, halved by a maximum over 3 x 3, then two residual blocks.

    The bias of a block's second convolution is added to what the block leaves as it is: TensorFlow's graph
    optimizer tries to join convolution, bias and sum, fails where the sum is used twice, as here, and says so
    on the terminal.
    """

    def __init__(self, filters: int, activation: str, initializers: Initializers, name: str):
        super().__init__(name=name)
        self.activation, self.filters = keras.activations.get(activation), filters

        def layer(part: str, bias: bool = True) -> keras.layers.Conv2D:
            return convolution(filters, 3, 1, initializers.hidden(activation), part, None, "same", bias)

        self.enter = layer("enter")
        self.blocks = [(layer(f"block_{i}_first"), layer(f"block_{i}_second", False)) for i in range(2)]
        self.biases = [
            self.add_weight(shape=(filters,), initializer="zeros", name=f"block_{i}_bias") for i in range(2)
        ]

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
        for (first, second), bias in zip(self.blocks, self.biases, strict=True):
            x = (x + bias) + second(self.activation(first(self.activation(x))))
        return x


@register
class ImpalaCNN(ImageTorso):
    """Residual convolutions in sections that halve the image, made for 64 x 64; then layers `model.hidden`.

    Three sections of 16, 32 and 32 filters; the paper's dense layer has 256 units.
    """

    def convolutions(self, model: ModelHParams, initializers: Initializers) -> list[keras.layers.Layer]:
        sections: list[keras.layers.Layer] = [
            Section(count, model.activation, initializers, f"section_{i}")
            for i, count in enumerate(model.filters or FILTERS)
        ]
        return [*sections, keras.layers.Activation(model.activation, name="last")]
