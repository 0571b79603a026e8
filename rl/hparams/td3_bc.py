"""Hyperparameters and named sets of TD3+BC (`rl/agents/algos/td3_bc.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.hparams import PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import CONTINUOUS, OFFLINE, OFFLINE_IDENTITY, OFFLINE_LOCOMOTION
from rl.hparams.td3 import TD3HParams


class TD3BCHParams(TD3HParams):
    """TD3+BC for bounded continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "alpha": "log:0.5:10.0",
    }

    algo: str = "td3_bc"
    memory: str = "dataset"
    normalize_observation: bool = True

    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate
    alpha: PositiveFloat = 2.5  # weight of values against distances from the data's actions


@register
def td3_bc() -> TD3BCHParams:
    """TD3+BC from any data of bounded continuous actions: give --hparam_override data=DIR."""
    return TD3BCHParams.of(OFFLINE_LOCOMOTION)


@register
def td3_bc_halfcheetah() -> TD3BCHParams:
    """TD3+BC from data of HalfCheetah-v5, settings of the paper."""
    return td3_bc(OFFLINE["HalfCheetah-v5"])


@register
def td3_bc_hopper() -> TD3BCHParams:
    """TD3+BC from data of Hopper-v5, settings of the paper."""
    return td3_bc(OFFLINE["Hopper-v5"])


@register
def td3_bc_identity() -> TD3BCHParams:
    """TD3+BC from data of Identity-v0, continuous: the smallest test that anything is learned."""
    return td3_bc(OFFLINE_IDENTITY, CONTINUOUS)
