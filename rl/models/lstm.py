"""Long short-term memory behind dense layers (Hochreiter and Schmidhuber 1997; forget gate: Gers 2000)."""

from __future__ import annotations

import tensorflow as tf

from rl.hparams.hparams import ModelHParams
from rl.models.layers import Initializers
from rl.models.recurrent import RecurrentTorso
from rl.models.registry import register
from rl.types import Nest, Tensor


@register
def lstm(model: ModelHParams, inputs: tuple[int, ...], initializers: Initializers, name: str) -> LSTM:
    """Dense layers, `model.hidden` wide, then an LSTM of `model.recurrent_units`."""
    return LSTM(model, inputs, initializers, name)


class LSTM(RecurrentTorso):
    """State: (output h, cell c), each `[N, units]`."""

    GATES = 4

    def initial_state(self, count: int) -> Nest:
        return (tf.zeros([count, self.size]), tf.zeros([count, self.size]))

    def cell(self, gates: Tensor, state: Nest, kernel: Tensor) -> tuple[Tensor, Nest]:
        output, memory = state
        enter, forget, new, leave = tf.split(gates + tf.matmul(output, kernel), 4, -1)  # [N, units] each
        # The constant keeps memories alive at the start of learning (Jozefowicz et al. 2015).
        memory = tf.sigmoid(forget + 1.0) * memory + tf.sigmoid(enter) * tf.tanh(new)
        output = tf.sigmoid(leave) * tf.tanh(memory)
        return output, (output, memory)
