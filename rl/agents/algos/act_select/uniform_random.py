"""Actions that ignore the policy: the baseline every learning curve should be held against."""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.act_select.epsilon_greedy import uniform_action
from rl.agents.algos.act_select.registry import register
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.ops.distributions import Categorical
from rl.types import PolicyOutput, Tensor


@register
def uniform_random(hparams: HParams) -> UniformRandom:
    """A uniformly random legal discrete action, in training and in evaluation."""
    return UniformRandom()


class UniformRandom:
    """Action selection that draws in evaluations, too."""

    evaluates_with_noise = True

    def __call__(
        self, output: PolicyOutput, seed: Tensor, step: Tensor, training: bool
    ) -> tuple[Tensor, Tensor]:
        if not isinstance(output.distribution, Categorical | None):
            raise UsageError("act_select uniform_random is for one discrete action: take sample or greedy")
        action, chance = uniform_action(output, seed)
        return action, tf.math.log(chance) * tf.ones(action.shape)
