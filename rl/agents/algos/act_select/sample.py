"""Actions drawn from the policy's own distribution."""

from __future__ import annotations

from rl.agents.algos.act_select.registry import register
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.types import Nest, PolicyOutput, Tensor

NEEDS_DISTRIBUTION = "act_select sample needs an action distribution, which this algorithm lacks: take greedy"


@register
def sample(hparams: HParams) -> Sample:
    """A sample of the action distribution in training, its mode in evaluation (unless eval_policy=sample)."""
    return Sample()


class Sample:
    """Action selection that can sample in evaluations as well (`eval_policy=sample`)."""

    stochastic = True

    def __call__(
        self, output: PolicyOutput, seed: Tensor, step: Tensor, training: bool
    ) -> tuple[Nest, Tensor]:
        if output.distribution is None:
            raise UsageError(NEEDS_DISTRIBUTION)
        distribution = output.distribution
        action = distribution.sample(seed) if training else distribution.mode()
        return action, distribution.log_prob(action)
