"""A convolution for boards on which lines count: what makes three in a row is the same everywhere."""

from __future__ import annotations

import keras

from rl.hparams.hparams import ModelHParams
from rl.models.images import ImageTorso, PatchConvolution
from rl.models.layers import Initializers
from rl.models.registry import register

FILTERS, SIZE = (64,), 4


@register
class BoardCNN(ImageTorso):
    """Convolutions of 4 x 4 over small boards, such as Connect Four's; then layers `model.hidden` wide.

    Without padding: each line of four cells lies within one of the 3 x 4 places of the first filters.
    """

    def convolutions(self, model: ModelHParams, initializers: Initializers) -> list[keras.layers.Layer]:
        activation = model.activation
        return [
            PatchConvolution(count, SIZE, initializers.hidden(activation), f"conv_{i}", activation)
            for i, count in enumerate(model.filters or FILTERS)
        ]
