"""Networks of PEARL: what a transition says of the task, and observations with a belief of it beside them."""

from __future__ import annotations

import keras
import tensorflow as tf

from rl.hparams.hparams import HParams
from rl.models.layers import Initializers, ObservationEncoder, dense
from rl.models.mlp import Torso
from rl.types import Nest, Tensor

LEAST_VARIANCE = 1e-7  # of a factor, as in the authors' code


class ContextEncoder(keras.Model):
    """Transitions to factors of the belief of their task, each a normal distribution of `size` numbers: dense
    layers, `model.hidden` wide."""

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        action_size: int,
        size: int,
        initializers: Initializers,
    ):
        super().__init__(name="context")
        self.encoder = encoder
        width = 2 * encoder.size + action_size + 1
        self.torso = Torso(hparams.model, (width,), initializers, "torso")
        self.factor = dense(self.torso.size, 2 * size, initializers.output(1.0), "factor")
        self.built = True

    def call(
        self, observation: Nest, code: Tensor, reward: Tensor, next_observation: Nest
    ) -> tuple[Tensor, Tensor]:
        """Returns (mean, variance) [N, size] for observations [N, ...], codes of actions [N, K], rewards
        [N]."""
        now, following = (tf.cast(self.encoder(x), tf.float32) for x in (observation, next_observation))
        output = self.factor(self.torso(tf.concat([now, code, reward[:, None], following], -1)))
        mean, spread = tf.split(output, 2, -1)
        return mean, tf.maximum(tf.nn.softplus(spread), LEAST_VARIANCE)


class TaskEncoder(keras.layers.Layer):
    """What `ObservationEncoder` makes of the first of a pair, and beside it the second, [N, size].

    For networks that take an encoder: to a flat observation these are more numbers, to others a further part.
    """

    def __init__(self, encoder: ObservationEncoder, size: int):
        super().__init__(name="with_task", trainable=False)
        self.encoder, self.size = encoder, encoder.size + size
        flat = len(encoder.shapes) == 1 and len(encoder.shapes[0]) == 1
        self.shapes = [(self.size,)] if flat else [*encoder.shapes, (size,)]
        self.built = True

    def call(self, pair: tuple[Nest, Tensor]) -> Tensor:
        observation, task = pair
        x = self.encoder(observation)
        return tf.concat([x, tf.cast(task, x.dtype)], -1)

    def mask_illegal(self, values: Tensor, pair: tuple[Nest, Tensor]) -> Tensor:
        """Does what `ObservationEncoder.mask_illegal` says."""
        return self.encoder.mask_illegal(values, pair[0])
