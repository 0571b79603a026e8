"""The best action, always."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.algos.act_select.registry import register
from rl.types import Nest, PolicyOutput, Tensor


@register
def greedy(hparams: Any) -> Any:
    """The action of highest value, or the mode of the action distribution; exploring is up to the model."""

    def select(output: PolicyOutput, seed: Tensor, step: Tensor, training: bool) -> tuple[Nest, Tensor]:
        if output.distribution is not None:
            action = output.distribution.mode()
            return action, output.distribution.log_prob(action)
        action = tf.argmax(output.q_values, -1, output_type=tf.int32)
        return action, tf.zeros(action.shape)

    return select
