"""BC: behaviour cloning, a policy that does what the data do.

Pomerleau 1991, "Efficient training of artificial neural networks for autonomous navigation",
https://doi.org/10.1162/neco.1991.3.1.88: supervised learning of actions from observations. The loss is
-log pi(a | s), averaged over the data: for discrete actions the cross-entropy, for others the log-density of
a normal, whose mean is fitted by least squares and whose deviation is that of the data around it. Rewards are
not looked at: the policy is about as good as those who acted.

With a model that keeps state (`model.name=lstm`, `gru`) it learns from sequences of `unroll_length` steps,
each after up to `burn_in` steps of its episode that bring the state up to date without gradient
(`rl/memory/dataset_sequences.py`).

Deviations from the paper:

1. It has one network of 30 actions, to which a Gaussian hump around the right one is the target; here it is
   the likelihood, as is customary since.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.cloning import Cloning
from rl.hparams.bc import BCHParams
from rl.ops import sequence
from rl.ops.nests import flatten_time, without_last
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, SequenceBatch, Tensor


@register
class BC(Cloning[BCHParams]):
    """Behaviour cloning: the policy that makes the data's actions likeliest."""

    recurrent = True

    def build(self) -> None:
        super().build()
        if tf.nest.flatten(self.network.initial_state(1)):
            self.experience = "sequence"

    def loss(self, batch: Batch | SequenceBatch, seed: Tensor) -> Loss:
        if isinstance(batch, SequenceBatch):
            return self.sequence_loss(batch)
        return super().loss(batch, seed)

    def sequence_loss(self, batch: SequenceBatch) -> Loss:
        """Returns the loss of sequences [N]: the mean over the U steps after the burn-in, 0 without any."""

        def warm(observation: Nest, state: Nest, mask: Tensor) -> Nest:
            return self.network.unroll(observation, state, mask)[1]

        burn_in = self.hparams.burn_in
        observation, state, mask = sequence.after_burn_in(batch.trajectory, burn_in, warm)
        observation, mask = without_last((observation, mask))  # [U, N, ...]
        action = flatten_time(tf.nest.map_structure(lambda x: x[burn_in:], batch.trajectory.action))
        log_prob = self.network.unroll(observation, state, mask)[0].log_prob(action)  # [U * N]
        log_prob, mask = tf.reshape(log_prob, mask.shape), mask * batch.mask  # [U, N]
        return -tf.reduce_mean(log_prob * mask, 0), {"log_prob": masked_mean(log_prob, mask)}, None
