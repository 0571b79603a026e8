"""Hyperparameters and named sets of AWAC (`rl/agents/algos/awac.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.ddpg import ActorCriticReplayHParams
from rl.hparams.hparams import Coefficient, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import OFFLINE, OFFLINE_IDENTITY, OFFLINE_LOCOMOTION


class AdvantageWeightedHParams(ActorCriticReplayHParams):
    """What IQL and AWAC have."""

    searched: ClassVar[dict[str, str]] = {
        "inverse_temperature": "log:0.3:10.0",
    }

    memory: str = "dataset"

    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate
    inverse_temperature: Coefficient = 3.0  # how much advantages weigh; 0: BC
    max_weight: PositiveFloat = 100.0  # largest weight of an action


class AWACHParams(AdvantageWeightedHParams):
    """AWAC for bounded continuous actions, and for discrete ones."""

    algo: str = "awac"


@register
def awac() -> AWACHParams:
    """AWAC from any data: give --hparam_override data=DIR."""
    return AWACHParams.of(OFFLINE_LOCOMOTION, model=dict(hidden=(256, 256, 256)))


@register
def awac_halfcheetah() -> AWACHParams:
    """AWAC from data of HalfCheetah-v5: three layers of 256, steps of 3e-4, lambda 1/3."""
    return awac(OFFLINE["HalfCheetah-v5"])


@register
def awac_hopper() -> AWACHParams:
    """AWAC from data of Hopper-v5: three layers of 256, steps of 3e-4, lambda 1/3."""
    return awac(OFFLINE["Hopper-v5"])


@register
def awac_identity() -> AWACHParams:
    """AWAC from data of Identity-v0: the smallest test that anything is learned."""
    return awac(OFFLINE_IDENTITY)
