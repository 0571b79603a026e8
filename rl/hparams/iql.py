"""Hyperparameters and named sets of IQL (`rl/agents/algos/iql.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.awac import AdvantageWeightedHParams
from rl.hparams.hparams import Fraction
from rl.hparams.registry import register
from rl.hparams.tasks import OFFLINE, OFFLINE_IDENTITY, OFFLINE_LOCOMOTION


class IQLHParams(AdvantageWeightedHParams):
    """IQL for bounded continuous actions, and for discrete ones."""

    searched: ClassVar[dict[str, str]] = {
        "expectile": "0.6:0.95",
    }

    algo: str = "iql"

    expectile: Fraction = 0.7  # which one of the data's action values the value is; 0.5: their mean


@register
def iql() -> IQLHParams:
    """IQL from any data: give --hparam_override data=DIR."""
    return IQLHParams.of(OFFLINE_LOCOMOTION)


@register
def iql_halfcheetah() -> IQLHParams:
    """IQL from data of HalfCheetah-v5, settings of the paper."""
    return iql(OFFLINE["HalfCheetah-v5"], return_span=1000.0)


@register
def iql_hopper() -> IQLHParams:
    """IQL from data of Hopper-v5, settings of the paper."""
    return iql(OFFLINE["Hopper-v5"], return_span=1000.0)


@register
def iql_identity() -> IQLHParams:
    """IQL from data of Identity-v0: the smallest test that anything is learned."""
    return iql(OFFLINE_IDENTITY)
