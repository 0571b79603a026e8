"""DQN: deep Q-learning from a replay memory.

Mnih et al. 2015, "Human-level control through deep reinforcement learning",
https://doi.org/10.1038/nature14236. Action values are fitted to r + discount * max_a Q_target(s', a) on
replayed transitions, where discount is gamma, or 0 where the episode terminated.
The switches `double`, `dueling`, `noisy`, `n_step` and `prioritized` are those of `rl/agents/value.py`.

Deviations from the paper:

1. The target network may follow by `tau` at every `target_update_period` instead of being copied.
2. Huber loss by default where the paper clips the error's derivative: the same gradient within `huber_delta`.
3. Truncated episodes bootstrap from the last observation; only terminal states do not.
4. Collecting and learning alternate in blocks: after each rollout come `updates_per_iteration` updates.
5. Adam by default, the paper's RMSProp by `optimizer=rmsprop`.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.value import ValueAgent, replay_loss
from rl.hparams.dqn import DQNHParams
from rl.ops import value
from rl.types import Batch, Loss, Tensor


@register
class DQN(ValueAgent[DQNHParams]):
    """Deep Q-network: double, dueling, noisy, n-step and prioritized are switches."""

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        hparams = self.hparams
        q_values, next_q_values, next_action = self.outputs(batch, seed)  # [N, A], [N, A], [N]
        target = batch.reward + batch.discount * value.select(next_q_values, next_action)  # [N]
        q_value = value.select(q_values, batch.action)  # [N]
        error = target - q_value
        loss = value.huber(error, hparams.huber_delta) if hparams.loss == "huber" else tf.square(error)
        return replay_loss(loss, q_value, error, batch)
