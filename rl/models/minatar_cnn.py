"""The convolutional network of MinAtar's paper (Young and Tian 2019, https://arxiv.org/abs/1903.03176)."""

from __future__ import annotations

import keras

from rl.hparams.hparams import ModelHParams
from rl.models.images import ImageTorso, PatchConvolution
from rl.models.layers import Initializers
from rl.models.registry import register

FILTERS, SIZE = (16,), 3


@register
class MinAtarCNN(ImageTorso):
    """Convolutions of 3 x 3 over small images such as 10 x 10; then layers `model.hidden` wide.

    Without padding; in the paper one of 16 filters (section 4).
    """

    def convolutions(self, model: ModelHParams, initializers: Initializers) -> list[keras.layers.Layer]:
        activation = model.activation
        return [
            PatchConvolution(count, SIZE, initializers.hidden(activation), f"conv_{i}", activation)
            for i, count in enumerate(model.filters or FILTERS)
        ]
