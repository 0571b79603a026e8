"""What the models of images share: convolutions, then dense layers.

Images are [H, W, C] in this package. EnvPool's, whose channels come first, are turned round where they are
adapted (`rl/envs/envpool_host.py`), those of other environments here (`rl.spaces.channels_first`). Bytes
arrive here scaled to [0, 1] by the encoder.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from rl.errors import UsageError
from rl.hparams.hparams import ModelHParams
from rl.models.contracts import checked_torso
from rl.models.layers import Initializers
from rl.models.mlp import Torso
from rl.models.registry import get_model
from rl.spaces import channels_first
from rl.types import Tensor


class ImageTorso(keras.layers.Layer):
    """Base of torsos for images: `[N, H * W * C]` to `[N, size]`.

    A subclass writes `convolutions`, whose output, flattened, goes through dense layers `model.hidden`.

    Args:
        model: hparams; `filters` of the convolutions, `hidden`, `activation`.
        inputs: (height, width, channels), or (channels, height, width) (`rl.spaces.channels_first`).
        initializers: of the weights.
        name: under which its variables are saved.

    Raises:
        UsageError: the observations are no images, or too small for the convolutions.
    """

    def __init__(self, model: ModelHParams, inputs: tuple[int, ...], initializers: Initializers, name: str):
        super().__init__(name=name)
        if len(inputs) != 3:
            raise UsageError(
                f"model {model.name} is for images [height, width, channels], these observations have shape "
                f"{list(inputs)}: take model.name=mlp"
            )
        self.inputs, self.channels_first = inputs, channels_first(inputs)
        if self.channels_first:
            inputs = (*inputs[1:], inputs[0])
        with keras.name_scope(name):
            self.stages = self.convolutions(model, initializers)
            shape: tuple[int, ...] = inputs
            for stage in self.stages:
                shape = _built(stage, shape, type(self).__module__.rpartition(".")[2], inputs)
            self.dense = Torso(model, (math.prod(shape),), initializers, "dense")
        self.size = self.dense.size
        self.built = True

    def convolutions(self, model: ModelHParams, initializers: Initializers) -> list[keras.layers.Layer]:
        """Returns layers from `[N, H, W, C]` on, one after another, not built yet."""
        raise NotImplementedError

    def call(self, x: Tensor) -> Tensor:
        x = ops.reshape(x, (-1, *self.inputs))
        if self.channels_first:
            x = ops.transpose(x, (0, 2, 3, 1))  # [N, H, W, C]
        for stage in self.stages:
            x = stage(x)
        return self.dense(ops.reshape(x, (-1, math.prod(x.shape[1:]))))


def convolution(
    filters: int,
    size: int,
    stride: int,
    initializer: Any,
    name: str,
    activation: str | None,
    padding: str,
    bias: bool = True,
) -> keras.layers.Conv2D:
    """Returns a Keras convolution over [N, H, W, C]."""
    return keras.layers.Conv2D(
        filters,
        size,
        stride,
        padding,
        data_format="channels_last",
        activation=activation,
        use_bias=bias,
        kernel_initializer=initializer,
        name=name,
    )


class PatchConvolution(keras.layers.Layer):
    """A convolution of stride 1 without padding, as one matrix product: `[N, H, W, C]` to
    `[N, H - size + 1, W - size + 1, filters]`.

    For small images in compiled loops: XLA on a CPU takes ten times as long over the kernel's gradient of its
    own convolution.
    """

    def __init__(self, filters: int, size: int, initializer: Any, name: str, activation: str):
        super().__init__(name=name)
        self.filters, self.width, self.initializer = filters, size, initializer
        self.activation = keras.activations.get(activation)

    def build(self, shape: tuple[int | None, ...]) -> None:
        kernel = (self.width, self.width, shape[-1], self.filters)
        self.kernel = self.add_weight(shape=kernel, initializer=self.initializer, name="kernel")
        self.bias = self.add_weight(shape=(self.filters,), initializer="zeros", name="bias")
        self.built = True

    def compute_output_shape(self, shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
        count, height, width, _ = shape
        return (count, height - self.width + 1, width - self.width + 1, self.filters)  # type: ignore[operator]

    def call(self, x: Tensor) -> Tensor:
        size = self.width
        height, width = x.shape[1] - size + 1, x.shape[2] - size + 1
        shifted = [x[:, i : i + height, j : j + width] for i in range(size) for j in range(size)]
        patches = ops.concatenate(shifted, -1)  # [N, H', W', size * size * C]
        kernel = ops.reshape(self.kernel, (patches.shape[-1], self.filters))
        return self.activation(ops.matmul(patches, kernel) + self.bias)


def convolves(network: keras.layers.Layer) -> bool:
    """Returns whether a network computes convolutions proper, which TensorFlow's own kernels (oneDNN) are
    best at."""
    return any(isinstance(layer, keras.layers.Conv2D) for layer in network._flatten_layers())


def for_images(name: str) -> bool:
    """Returns whether the registered model of that name takes images alone."""
    model = get_model(name)
    return isinstance(model, type) and issubclass(model, ImageTorso)


def image_torso(
    model: ModelHParams, inputs: tuple[int, ...], initializers: Initializers, name: str
) -> keras.layers.Layer:
    """Returns the layers that turn one part of an observation into features, before any that remember.

    Images go through the model named in hparams where it is for images, else through `model.image` (but are
    flattened where the model named is mlp); anything else through dense layers.
    """
    if len(inputs) != 3 or model.name == "mlp":
        return Torso(model, inputs, initializers, name)
    chosen = model.name if for_images(model.name) else model.image
    if chosen != "mlp" and not for_images(chosen):
        raise UsageError(f"hparam model.image={chosen!r}: needs a model for images, or mlp (--list models)")
    return checked_torso(get_model(chosen)(model, inputs, initializers, name), chosen, inputs)


def _built(
    stage: keras.layers.Layer, shape: tuple[int, ...], name: str, image: tuple[int, ...]
) -> tuple[int, ...]:
    """Builds a stage for inputs [H, W, C]; the shape of what it gives."""
    too_small = UsageError(
        f"images of {image[0]} x {image[1]} are too small for the convolutions of model {name}: "
        "take minatar_cnn or mlp, as model.name, or as model.image where the model remembers"
    )
    try:
        after = tuple(stage.compute_output_shape((None, *shape)))[1:]
    except ValueError as error:
        raise too_small from error
    if min(after) < 1:
        raise too_small
    stage.build((None, *shape))
    return after
