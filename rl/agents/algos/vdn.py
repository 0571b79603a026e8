"""VDN: value decomposition networks, a team's value as the sum of its agents'.

Sunehag et al. 2017, "Value-decomposition networks for cooperative multi-agent learning",
https://arxiv.org/abs/1706.05296: Q_total(s, a) = sum_i Q_i(o_i, a_i), learned from the team's reward alone
by DQN's loss (`rl/agents/joint_value.py`). Each agent then acts by its own values: the agents' best actions
together are the team's best joint action.

Deviations from the paper:

1. Agents share one network, which sees their number (the paper's "weight sharing" with "role information");
   networks of their own, and channels between them, are left out.
2. No memory by default: agents act by what they observe now. The set `vdn_lstm` is the paper's form, an LSTM
   with a dueling head; with it the last action and the team's last reward can be told
   (`previous_action_reward`).
3. Transitions are replayed one by one, with the switches of DQN; with an LSTM sequences, from the state that
   was stored and after a burn-in, as in R2D2. Targets are n-step ones, the paper's by eligibility traces.
4. Values of agents that are gone count as 0.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.joint_value import JointValueAgent
from rl.hparams.vdn import VDNHParams
from rl.types import Nest, Tensor


@register
class VDN(JointValueAgent[VDNHParams]):
    """Value decomposition: the team's value is the sum of its agents'."""

    def total(self, values: Tensor, observation: Nest, target: bool) -> Tensor:
        return tf.reduce_sum(values, 1)
