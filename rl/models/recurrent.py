"""What the recurrent torsos share: dense layers, then a cell that is carried along time in one loop.

Where observations are images, convolutions come first.

Written here rather than taken from Keras: its layers cannot start a sequence anew in the middle of it, which
every trajectory with several episodes needs, and recompute the input's product at every step.
"""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from rl.hparams.hparams import ModelHParams
from rl.models.images import image_torso
from rl.models.layers import Initializers
from rl.types import Nest, Tensor


class RecurrentTorso(keras.layers.Layer):
    """Base of torsos with memory: `[N, F]`, F = prod(inputs), and a state to `[N, size]` and the next state.

    A subclass says how many gates its cell has (`GATES`), what state (`initial_state`), and writes `cell`.
    """

    GATES: int

    def __init__(self, model: ModelHParams, inputs: tuple[int, ...], initializers: Initializers, name: str):
        super().__init__(name=name)
        self.size = units = model.recurrent_units
        with keras.name_scope(name):
            self.dense = image_torso(model, inputs, initializers, "dense")
            shape = (self.dense.size, self.GATES * units)
            add = self.add_weight
            self.kernel = add(shape=shape, initializer=initializers.orthogonal(1.0), name="kernel")
            recurrent = initializers.orthogonal(1.0)
            self.recurrent_kernel = add(
                shape=(units, self.GATES * units), initializer=recurrent, name="recurrent_kernel"
            )
            self.bias = add(shape=(self.GATES * units,), initializer="zeros", name="bias")
        self.built = True

    def initial_state(self, count: int) -> Nest:
        """Returns zeros `[count, ...]`: the state at the start of an episode."""
        raise NotImplementedError

    def cell(self, gates: Tensor, state: Nest, kernel: Tensor) -> tuple[Tensor, Nest]:
        """Makes one step: the input's share of the gates `[N, GATES * units]`, the state before, the
        recurrent kernel `[units, GATES * units]`. Returns the output `[N, units]` and the state after."""
        raise NotImplementedError

    def call(self, x: Tensor, state: Nest) -> tuple[Tensor, Nest]:
        return self.cell(self._gates(x), state, tf.convert_to_tensor(self.recurrent_kernel))

    def unroll(self, x: Tensor, state: Nest, mask: Tensor) -> tuple[Tensor, Nest]:
        """Returns outputs along a trajectory.

        Args:
            x: `[T, B, *inputs]`.
            state: before the first step, `[B, ...]`.
            mask: `[T, B]`; after a step where it is 0 (autoreset) the state starts anew.

        Returns:
            `[T, B, size]`, and the state after the last step.
        """
        length, count = x.shape[:2]
        # The product with the input needs no state: one large matrix product for all steps.
        gates = self._gates(tf.reshape(x, [length * count, math.prod(x.shape[2:])]))
        gates = tf.reshape(gates, [length, count, gates.shape[-1]])  # [T, B, G]
        mask = tf.cast(mask, tf.float32)
        kernel = tf.convert_to_tensor(self.recurrent_kernel)
        array = tf.TensorArray(tf.float32, length, element_shape=[count, self.size])

        def body(t: Tensor, state: Nest, outputs: tf.TensorArray) -> tuple:
            output, state = self.cell(tf.gather(gates, t), state, kernel)
            alive = tf.gather(mask, t)[:, None]  # [B, 1]
            return t + 1, tf.nest.map_structure(lambda each: each * alive, state), outputs.write(t, output)

        _, state, outputs = tf.while_loop(
            lambda t, *_: t < length, body, (tf.constant(0), state, array), maximum_iterations=length
        )
        return outputs.stack(), state

    def _gates(self, x: Tensor) -> Tensor:
        return tf.matmul(self.dense(x), tf.convert_to_tensor(self.kernel)) + tf.convert_to_tensor(self.bias)
