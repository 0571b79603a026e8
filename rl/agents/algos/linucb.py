"""LinUCB: the arm whose reward may be highest, by a linear model of each.

Li et al. 2010, "A contextual-bandit approach to personalized news article recommendation",
https://arxiv.org/abs/1003.0146, algorithm 1 (disjoint models): with A = I + sum x x^T and b = sum r x over
the steps at which an arm was chosen, that arm is worth x^T A^-1 b + alpha sqrt(x^T A^-1 x).

Deviations from the paper:

1. A and b are renewed once for each rollout, of `num_envs` * `rollout_length` steps; with one environment
   whose episodes are of one step and `rollout_length=1`, after each step.
2. x has a constant 1 beside what is observed; the prior's precision is a hyperparameter, 1 in the paper.
3. Evaluations choose by x^T A^-1 b alone.
"""

from __future__ import annotations

from rl.agents.algos.registry import register
from rl.agents.linear_bandit import LinearBandit
from rl.hparams.linucb import LinUCBHParams
from rl.types import Tensor


@register
class LinUCB(LinearBandit[LinUCBHParams]):
    """Upper confidence bounds of linear rewards: contextual bandits with discrete actions."""

    def valued(self, expected: Tensor, deviation: Tensor, seed: Tensor) -> Tensor:
        return expected + self.hparams.alpha * deviation
