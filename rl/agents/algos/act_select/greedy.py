"""The best action, always."""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.act_select.epsilon_greedy import best_or_any
from rl.agents.algos.act_select.registry import register
from rl.agents.contracts import ActSelect
from rl.hparams.hparams import HParams
from rl.types import Nest, PolicyOutput, Tensor


@register
def greedy(hparams: HParams) -> ActSelect:
    """The action of highest value, or the mode of the action distribution; any exploration is the model's.

    In evaluations of algorithms that have the hparam `evaluation_epsilon`, that share of the actions is
    random.
    """
    epsilon = getattr(hparams, "evaluation_epsilon", 0.0)

    def select(output: PolicyOutput, seed: Tensor, step: Tensor, training: bool) -> tuple[Nest, Tensor]:
        if output.distribution is not None:
            action = output.distribution.mode()
            return action, output.distribution.log_prob(action)
        if epsilon and not training:
            return best_or_any(output, seed, tf.constant(epsilon, tf.float32))
        action = tf.argmax(output.q_values, -1, output_type=tf.int32)
        return action, tf.zeros(action.shape[:1])

    return select
