"""Linear Thompson sampling: the arm that is best by parameters drawn from their posterior.

Agrawal & Goyal 2013, "Thompson sampling for contextual bandits with linear payoffs",
https://arxiv.org/abs/1209.3352, algorithm 1: with B = I + sum x x^T and f = sum r x, parameters are drawn
from N(B^-1 f, v^2 B^-1), and the arm of the highest x^T parameters is chosen.

Deviations from the paper:

1. Each arm has parameters of its own: the paper's one vector, of contexts that are 0 outside of the arm's
   part. What is drawn is each arm's x^T parameters, N(x^T B^-1 f, v^2 x^T B^-1 x): the same in distribution.
2. v is a hyperparameter, `posterior_scale`; the paper's is R sqrt(9 d ln(t / delta)).
3. B and f are renewed once for each rollout, of `num_envs` * `rollout_length` steps.
4. x has a constant 1 beside what is observed; the prior's precision is a hyperparameter, 1 in the paper.
5. Evaluations choose by x^T B^-1 f alone.
"""

from __future__ import annotations

from rl.agents.algos.registry import register
from rl.agents.linear_bandit import LinearBandit
from rl.hparams.linear_thompson import LinearThompsonHParams
from rl.ops import random
from rl.types import Tensor


@register
class LinearThompson(LinearBandit[LinearThompsonHParams]):
    """Thompson sampling of linear rewards: contextual bandits with discrete actions."""

    def valued(self, expected: Tensor, deviation: Tensor, seed: Tensor) -> Tensor:
        return expected + self.hparams.posterior_scale * deviation * random.normal(seed, expected.shape)
