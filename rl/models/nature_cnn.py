"""The convolutional network of DQN's Nature paper (Mnih et al. 2015, "Methods", model architecture)."""

from __future__ import annotations

import keras

from rl.errors import UsageError
from rl.hparams.hparams import ModelHParams
from rl.models.images import ImageTorso, convolution
from rl.models.layers import Initializers
from rl.models.registry import register

FILTERS, SIZES, STRIDES = (32, 64, 64), (8, 4, 3), (4, 2, 1)


@register
class NatureCNN(ImageTorso):
    """Three convolutions over images of 36 x 36 or more, made for 84 x 84; then layers `model.hidden` wide.

    32 filters of 8 x 8 at stride 4, 64 of 4 x 4 at stride 2, 64 of 3 x 3, without padding.
    """

    def convolutions(self, model: ModelHParams, initializers: Initializers) -> list[keras.layers.Layer]:
        filters = model.filters or FILTERS
        if len(filters) != len(FILTERS):
            raise UsageError(
                f"model nature_cnn has 3 convolutions, model.filters={list(filters)} names others"
            )
        activation = model.activation
        return [
            convolution(
                count, size, stride, initializers.hidden(activation), f"conv_{i}", activation, "valid"
            )
            for i, (count, size, stride) in enumerate(zip(filters, SIZES, STRIDES, strict=True))
        ]
