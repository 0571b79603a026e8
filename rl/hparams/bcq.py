"""Hyperparameters and named sets of BCQ for continuous actions (`rl/agents/algos/bcq.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.ddpg import ActorCriticReplayHParams
from rl.hparams.hparams import Coefficient, Fraction, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import CONTINUOUS, OFFLINE, OFFLINE_IDENTITY, OFFLINE_LOCOMOTION


class BCQHParams(ActorCriticReplayHParams):
    """BCQ for bounded continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "perturbation": "0.01:0.2",
        "minimum_weight": "0.5:1.0",
    }

    algo: str = "bcq"
    memory: str = "dataset"

    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate
    perturbation: Coefficient = 0.05  # largest change of an action like the data's, in half ranges
    minimum_weight: Fraction = 0.75  # of the lesser critic's value in targets; the rest is the greater one's
    target_actions: PositiveInt = 10  # actions of which the best makes a target
    sampled_actions: PositiveInt = 100  # actions of which the best is taken


@register
def bcq() -> BCQHParams:
    """BCQ from any data of bounded continuous actions: give --hparam_override data=DIR."""
    return BCQHParams.of(OFFLINE_LOCOMOTION, lr=1e-3)


@register
def bcq_halfcheetah() -> BCQHParams:
    """BCQ from data of HalfCheetah-v5: settings of the paper but for the auto-encoder's layers."""
    return bcq(OFFLINE["HalfCheetah-v5"], model=dict(hidden=(400, 300)), batch_size=100)


@register
def bcq_hopper() -> BCQHParams:
    """BCQ from data of Hopper-v5: settings of the paper but for the auto-encoder's layers."""
    return bcq(OFFLINE["Hopper-v5"], model=dict(hidden=(400, 300)), batch_size=100)


@register
def bcq_identity() -> BCQHParams:
    """BCQ from data of Identity-v0, continuous: the smallest test that anything is learned."""
    return bcq(OFFLINE_IDENTITY, CONTINUOUS)
