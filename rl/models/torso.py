"""What all torsos share: parts of an observation joined, single steps, unrolling along time.

`rl.models.contracts` says what a torso is; the functions here treat those that keep state and those that do
not alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from rl.errors import UsageError
from rl.hparams.hparams import ModelHParams
from rl.models.contracts import KeepsState, checked_torso
from rl.models.images import for_images, image_torso
from rl.models.layers import Initializers, ObservationEncoder
from rl.models.mlp import Torso
from rl.models.precision import precision_of
from rl.models.registry import get_model
from rl.ops.nests import flatten_time
from rl.types import Nest, Tensor


def make_torso(
    model: ModelHParams, encoder: ObservationEncoder, initializers: Initializers, name: str
) -> keras.layers.Layer:
    """Makes the torso named in hparams for the encoder's output; several parts get a torso each and are
    joined.

    Raises:
        UsageError: `model.precision` is not for a model that keeps state.
    """

    def make() -> keras.layers.Layer:
        if len(encoder.shapes) == 1:
            made = get_model(model.name)(model, encoder.shapes[0], initializers, name)
            return checked_torso(made, model.name, encoder.shapes[0])
        return JoinedTorso(model, encoder.shapes, initializers, name)

    precision = precision_of(model)
    return make() if precision == "float32" else _narrow(make, model, precision)


def of_value(model: ModelHParams) -> ModelHParams:
    """Returns the hparams of a value's or critic's own layers."""
    return model if model.value_hidden is None else model.model_copy(update={"hidden": model.value_hidden})


def _narrow(
    make: Callable[[], keras.layers.Layer], model: ModelHParams, precision: str
) -> keras.layers.Layer:
    """A torso that computes in bfloat16, with weights and features of float32."""
    usual = keras.config.dtype_policy()
    keras.config.set_dtype_policy(f"mixed_{precision}")
    try:
        torso = make()
    finally:
        keras.config.set_dtype_policy(usual)
    if is_recurrent(torso):
        raise UsageError(
            f"model.precision={precision} is for models without memory: model {model.name} would lose "
            "what it adds up over time; leave precision out"
        )
    features = torso.call
    torso.call = lambda x: tf.cast(features(x), tf.float32)
    return torso


class JoinedTorso(keras.layers.Layer):
    """Dict and Tuple observations: layers for each part alone, their outputs joined and fed to a torso.

    A part's own layers are dense (`model.part_hidden`), behind convolutions where it is an image. They are
    those of the model named in hparams, or of `model.image` where that one remembers; the joint torso is the
    model named, or dense layers (`model.hidden`) where that one is for images.
    """

    def __init__(
        self, model: ModelHParams, shapes: list[tuple[int, ...]], initializers: Initializers, name: str
    ):
        super().__init__(name=name)
        self.widths = [math.prod(shape) for shape in shapes]
        own = model.model_copy(update={"hidden": model.part_hidden})
        with keras.name_scope(name):
            self.parts = [
                image_torso(own, shape, initializers, f"part_{i}") for i, shape in enumerate(shapes)
            ]
            joined = (sum(part.size for part in self.parts),)
            joint = Torso if for_images(model.name) else get_model(model.name)
            self.joint = checked_torso(joint(model, joined, initializers, "joint"), model.name, joined)
        self.size = self.joint.size
        self.built = True

    def initial_state(self, count: int) -> Nest:
        return initial_state(self.joint, count)

    def call(self, x: Tensor, *state: Nest) -> Any:
        return self.joint(self._join(x), *state)

    def unroll(self, x: Tensor, state: Nest, mask: Tensor) -> tuple[Tensor, Nest]:
        length, count = x.shape[:2]
        joined = self._join(tf.reshape(x, [length * count, *x.shape[2:]]))
        return self.joint.unroll(tf.reshape(joined, [length, count, joined.shape[-1]]), state, mask)

    def _join(self, x: Tensor) -> Tensor:
        split = tf.split(x, self.widths, -1)
        return tf.concat([part(each) for part, each in zip(self.parts, split, strict=True)], -1)


class TorsoNetwork(keras.Model):
    """Base of networks that make a `torso`, and keep its state alone."""

    torso: keras.layers.Layer

    def initial_state(self, count: int) -> Nest:
        """Returns the state of the torso at the start of `count` episodes; () where it keeps none."""
        return initial_state(self.torso, count)


def is_recurrent(torso: keras.layers.Layer) -> bool:
    """Returns whether the torso keeps state from step to step."""
    return isinstance(torso.joint if isinstance(torso, JoinedTorso) else torso, KeepsState)


def initial_state(torso: keras.layers.Layer, count: int) -> Nest:
    """Returns its state at the start of `count` episodes: zeros `[count, ...]`, or () where it keeps none."""
    return torso.initial_state(count) if is_recurrent(torso) else ()


def step(torso: keras.layers.Layer, x: Tensor, state: Nest) -> tuple[Tensor, Nest]:
    """Returns features of one step: x `[N, F]` to (`[N, size]`, the next state)."""
    return torso(x, state) if is_recurrent(torso) else (torso(x), ())


def unroll_encoded(
    torso: keras.layers.Layer, encoder: Any, observation: Nest, state: Nest, mask: Tensor
) -> tuple[Tensor, Nest]:
    """Returns features along time, as `unroll` does, of observations `[T, B, ...]` not encoded yet."""
    x = encoder(flatten_time(observation))  # [T * B, F]
    return unroll(torso, tf.reshape(x, [*mask.shape, x.shape[-1]]), state, mask)


def unroll(torso: keras.layers.Layer, x: Tensor, state: Nest, mask: Tensor) -> tuple[Tensor, Nest]:
    """Returns features along time: x `[T, B, F]` to (`[T * B, size]`, the state after the last step).

    `mask` `[T, B]`: after a step where it is 0, the ignored step of an autoreset, the state starts anew.
    """
    length, count = x.shape[:2]
    if not is_recurrent(torso):
        return torso(tf.reshape(x, [length * count, *x.shape[2:]])), ()
    features, state = torso.unroll(x, state, mask)
    return tf.reshape(features, [length * count, torso.size]), state
