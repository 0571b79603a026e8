"""The best action, always."""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.act_select.registry import register
from rl.agents.contracts import ActSelect
from rl.hparams.hparams import HParams
from rl.types import Nest, PolicyOutput, Tensor


@register
def greedy(hparams: HParams) -> ActSelect:
    """The action of highest value, or the mode of the action distribution; exploring is up to the model."""

    def select(output: PolicyOutput, seed: Tensor, step: Tensor, training: bool) -> tuple[Nest, Tensor]:
        if output.distribution is not None:
            action = output.distribution.mode()
            return action, output.distribution.log_prob(action)
        action = tf.argmax(output.q_values, -1, output_type=tf.int32)
        return action, tf.zeros(action.shape[:1])

    return select
