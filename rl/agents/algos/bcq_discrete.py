"""Discrete BCQ: batch-constrained deep Q-learning, which excludes actions that are rare in the data.

Fujimoto et al. 2019, "Benchmarking batch deep reinforcement learning algorithms",
https://arxiv.org/abs/1910.01708: double DQN whose best action, in the target and when acting, is chosen among
the actions with G(a | s) / max_a' G(a' | s) > `threshold` (equation 11). G is a model of the data's actions,
trained by cross-entropy together with the values, and by the mean square of its logits (`logit_penalty`).

Deviations from the paper:

1. Values and logits of G are one network's, whose hidden layers both share, as the paper's convolutions are;
   its dense layers are not.
2. Those of DQN (`rl/agents/algos/dqn.py`) that are not about playing.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.value import ValueAgent, replay_loss
from rl.hparams.bcq_discrete import BCQDiscreteHParams
from rl.models.layers import ILLEGAL
from rl.ops import value
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, Tensor


@register
class BCQDiscrete(ValueAgent[BCQDiscreteHParams]):
    """Batch-constrained Q-learning: discrete actions, of which rare ones are not considered."""

    values_per_action = 2  # a value, and a logit of the data's actions

    def log_probs(self, outputs: Tensor, observation: Nest) -> Tensor:
        """Returns log G(a | s), [N, A]."""
        return tf.nn.log_softmax(self.encoder.mask_illegal(outputs[:, :, 1], observation))

    def q_values(self, outputs: Tensor, observation: Nest) -> Tensor:
        """Returns values [N, A] from outputs [N, A, 2]; those of actions that are rare in the data are
        `ILLEGAL`."""
        log_probs = self.log_probs(outputs, observation)
        share = tf.exp(log_probs - tf.reduce_max(log_probs, -1, keepdims=True))
        likely = tf.logical_or(share > self.hparams.threshold, share >= 1.0)  # the likeliest one always
        return tf.where(likely, outputs[:, :, 0], ILLEGAL)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams = self.hparams
        outputs, next_outputs, next_action = self.outputs(batch, seed)  # [N, A, 2] twice, [N]
        target = batch.reward + batch.discount * value.select(next_outputs[:, :, 0], next_action)  # [N]
        q_value = value.select(outputs[:, :, 0], batch.action)
        error = target - q_value
        loss = value.huber(error, hparams.huber_delta) if hparams.loss == "huber" else tf.square(error)
        log_prob = value.select(self.log_probs(outputs, batch.observation), batch.action)  # [N]
        size = tf.reduce_mean(tf.square(outputs[:, :, 1]), -1)  # of logits, which nothing else bounds
        loss += hparams.imitation_weight * (hparams.logit_penalty * size - log_prob)
        loss, metrics, priorities = replay_loss(loss, q_value, error, batch)
        return loss, metrics | {"log_prob": masked_mean(log_prob, batch.mask)}, priorities
