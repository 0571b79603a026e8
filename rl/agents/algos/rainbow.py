"""Rainbow: six extensions of DQN in one agent.

Hessel et al. 2018, "Rainbow: Combining Improvements in Deep Reinforcement Learning",
https://arxiv.org/abs/1710.02298: C51 (`rl/agents/algos/c51.py`) with `double`, `dueling`, `noisy`, `n_step`
and `prioritized` on, by the KL divergence of target and prediction. Each stays a switch, which makes the
ablations of the paper's figure 3: `n_step=1`, and without `noisy` epsilon-greedy explores. Defaults are those
of its table 1.

Deviations from the paper:

1. `value_min` and `value_max` must be set to what returns can be, as for C51.
2. Those of DQN (`rl/agents/algos/dqn.py`).
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.c51 import C51
from rl.agents.algos.registry import register
from rl.agents.value import replay_loss
from rl.hparams.rainbow import RainbowHParams
from rl.ops import distributional
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Tensor


@register
class Rainbow(C51):
    """Categorical DQN with double, dueling, noisy, n-step and prioritized on, replay by the KL divergence."""

    hparams_type = RainbowHParams
    biases_apart = False

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        logits, next_logits, next_action = self.outputs(batch, seed)  # [N, A, K] twice, [N]
        next_probabilities = tf.nn.softmax(distributional.select(next_logits, next_action))  # [N, K]
        target = distributional.bellman_target(next_probabilities, batch.reward, batch.discount, self.atoms)
        chosen = distributional.select(logits, batch.action)  # [N, K]
        loss = distributional.cross_entropy(target, chosen)
        q_value = distributional.expectation(chosen, self.atoms)  # [N]
        error = tf.reduce_sum(target * self.atoms, -1) - q_value
        divergence = distributional.kl_divergence(target, chosen)  # the loss less what no network can remove
        loss, metrics, _ = replay_loss(loss, q_value, error, batch)
        return loss, metrics | {"kl_divergence": masked_mean(divergence, batch.mask)}, divergence
