"""Hyperparameters and named sets of linear Thompson sampling (`rl/agents/algos/linear_thompson.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.hparams import Coefficient
from rl.hparams.linucb import BANDIT, IDENTITY, LinearBanditHParams
from rl.hparams.registry import register


class LinearThompsonHParams(LinearBanditHParams):
    """Linear Thompson sampling for discrete actions."""

    searched: ClassVar[dict[str, str]] = {
        "posterior_scale": "log:0.01:10.0",
        "prior_precision": "log:0.01:10.0",
    }

    algo: str = "linear_thompson"
    posterior_scale: Coefficient = 0.3  # v: by what the posterior's deviation is multiplied


@register
def linear_thompson() -> LinearThompsonHParams:
    """Linear Thompson sampling on LinearBandit-v0: give --env ID for another bandit."""
    return LinearThompsonHParams.of(BANDIT)


@register
def linear_thompson_identity() -> LinearThompsonHParams:
    """Linear Thompson sampling on Identity-v0: the smallest test that anything is learned."""
    return LinearThompsonHParams.of(IDENTITY)
