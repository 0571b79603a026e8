"""Gated recurrent unit behind dense layers (Cho et al. 2014, https://arxiv.org/abs/1406.1078)."""

from __future__ import annotations

import tensorflow as tf

from rl.hparams.hparams import ModelHParams
from rl.models.layers import Initializers
from rl.models.recurrent import RecurrentTorso
from rl.models.registry import register
from rl.types import Nest, Tensor


@register
def gru(model: ModelHParams, inputs: tuple[int, ...], initializers: Initializers, name: str) -> GRU:
    """Dense layers, `model.hidden` wide, then a GRU of `model.recurrent_units`."""
    return GRU(model, inputs, initializers, name)


class GRU(RecurrentTorso):
    """State: the output h, `[N, units]`. The reset gate acts after the product (cuDNN's form), which needs
    one matrix product a step where the paper's needs two."""

    GATES = 3

    def initial_state(self, count: int) -> Nest:
        return tf.zeros([count, self.size])

    def cell(self, gates: Tensor, state: Nest, kernel: Tensor) -> tuple[Tensor, Nest]:
        update, reset, new = tf.split(gates, 3, -1)  # [N, units] each
        carried = tf.split(tf.matmul(state, kernel), 3, -1)
        update = tf.sigmoid(update + carried[0])
        candidate = tf.tanh(new + tf.sigmoid(reset + carried[1]) * carried[2])
        state = update * state + (1.0 - update) * candidate
        return state, state
