"""Hyperparameters and named sets of linear bandits, and of LinUCB (`rl/agents/algos/linucb.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.hparams.hparams import Coefficient, HParams, PositiveFloat, refuse_given
from rl.hparams.registry import register

BANDIT: dict[str, Any] = dict(
    env="LinearBandit-v0", train_steps=20_000, log_period=1_000, num_envs=1, rollout_length=2, gamma=0.0
)
IDENTITY: dict[str, Any] = dict(
    env="Identity-v0", train_steps=8_192, log_period=1_000, num_envs=8, rollout_length=8, gamma=0.0
)


class LinearBanditHParams(HParams):
    """What linear bandits share."""

    act_select: str = "greedy"
    prior_precision: PositiveFloat = 1.0  # of each arm's parameters before anything is observed

    def check_training(self) -> None:
        """Raises UsageError where what was learned from would later be something else."""
        kept = "adds up contexts and rewards once and for all, in the units in which they came"
        refuse_given(self, kept, "normalize_observation", "normalize_reward", "curiosity")


class LinUCBHParams(LinearBanditHParams):
    """LinUCB for discrete actions."""

    searched: ClassVar[dict[str, str]] = {"alpha": "log:0.01:10.0", "prior_precision": "log:0.01:10.0"}

    algo: str = "linucb"
    alpha: Coefficient = 1.0  # deviations of an arm's expected reward that are added to it


@register
def linucb() -> LinUCBHParams:
    """LinUCB on LinearBandit-v0: give --env ID for another bandit."""
    return LinUCBHParams.of(BANDIT)


@register
def linucb_identity() -> LinUCBHParams:
    """LinUCB on Identity-v0: the smallest test that anything is learned."""
    return LinUCBHParams.of(IDENTITY)
