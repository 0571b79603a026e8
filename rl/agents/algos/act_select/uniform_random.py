"""Actions that ignore the policy: the baseline every learning curve should be held against."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.algos.act_select.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.ops.distributions import Categorical
from rl.types import PolicyOutput, Tensor


@register
def uniform_random(hparams: Any) -> Any:
    """A uniformly random discrete action, in training and in evaluation."""

    def select(output: PolicyOutput, seed: Tensor, step: Tensor, training: bool) -> tuple[Tensor, Tensor]:
        if not isinstance(output.distribution, Categorical | None):
            raise UsageError("act_select uniform_random is for one discrete action: take sample or greedy")
        scores = output.q_values if output.distribution is None else output.distribution.logits  # [N, A]
        count, actions = scores.shape
        action = random.randint(seed, [count], actions)
        return action, tf.fill([count], -tf.math.log(float(actions)))

    return select
