"""C51: categorical distributions of returns in place of their means.

Bellemare et al. 2017, "A Distributional Perspective on Reinforcement Learning",
https://arxiv.org/abs/1707.06887. The distribution over `atoms` returns of the next state's best action, moved
to r + discount * z and projected on the atoms (algorithm 1), is the target of a cross-entropy.
The switches `double`, `dueling`, `noisy`, `n_step` and `prioritized` are those of `rl/agents/value.py`.

Deviations from the paper:

1. `value_min` and `value_max` must be set to what returns can be: the paper's -10, 10 suit clipped rewards.
2. Those of DQN (`rl/agents/algos/dqn.py`).
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.value import ValueAgent, replay_loss
from rl.hparams.c51 import C51HParams
from rl.ops import distributional
from rl.types import Batch, Loss, Nest, Tensor


@register
class C51(ValueAgent[C51HParams]):
    """Categorical DQN: double, dueling, noisy, n-step and prioritized are switches."""

    biases_apart = True  # an eighth faster; QR-DQN and Rainbow are not (docs/architecture.md)

    def build(self) -> None:
        hparams = self.hparams
        self.atoms = distributional.support(hparams.value_min, hparams.value_max, hparams.atoms)
        self.values_per_action = hparams.atoms
        super().build()

    def q_values(self, logits: Tensor, observation: Nest) -> Tensor:
        return self.encoder.mask_illegal(distributional.expectation(logits, self.atoms), observation)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        logits, next_logits, next_action = self.outputs(batch, seed)  # [N, A, K] twice, [N]
        next_probabilities = tf.nn.softmax(distributional.select(next_logits, next_action))  # [N, K]
        target = distributional.bellman_target(next_probabilities, batch.reward, batch.discount, self.atoms)
        chosen = distributional.select(logits, batch.action)  # [N, K]
        loss = distributional.cross_entropy(target, chosen)
        q_value = distributional.expectation(chosen, self.atoms)  # [N]
        error = tf.reduce_sum(target * self.atoms, -1) - q_value
        return replay_loss(loss, q_value, error, batch)
