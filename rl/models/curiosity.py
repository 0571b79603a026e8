"""Networks of curiosity (`rl/agents/curiosity.py`): features of observations, what is told from them."""

from __future__ import annotations

import keras

from rl.hparams.hparams import HParams
from rl.models.images import image_torso
from rl.models.layers import Initializers, dense
from rl.models.mlp import Torso
from rl.types import Tensor


class Features(keras.Model):
    """Dense layers or, for images, convolutions: `[N, F]` to `[N, units]`, by the `model` of the hparams.

    shape: of one row; deep: with a hidden layer more.
    """

    def __init__(
        self,
        hparams: HParams,
        shape: tuple[int, ...],
        units: int,
        initializers: Initializers,
        name: str,
        deep: bool = False,
    ):
        super().__init__(name=name)
        activation, self.hidden = hparams.model.activation, None
        with keras.name_scope(name):  # so that no two slots of the optimizer are called alike
            self.torso = image_torso(hparams.model, shape, initializers, "torso")
            size = self.torso.size
            if deep:
                self.hidden = dense(size, size, initializers.hidden(activation), "hidden", activation)
            self.head = dense(size, units, initializers.output(1.0), "head")
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        x = self.torso(x)
        return self.head(x if self.hidden is None else self.hidden(x))


class Perceptron(keras.Model):
    """One hidden layer: `[N, inputs]` to `[N, outputs]`."""

    def __init__(self, hparams: HParams, inputs: int, outputs: int, initializers: Initializers, name: str):
        super().__init__(name=name)
        with keras.name_scope(name):
            self.torso = Torso(hparams.model, (inputs,), initializers, "torso")
            self.head = dense(self.torso.size, outputs, initializers.output(1.0), "head")
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        return self.head(self.torso(x))
