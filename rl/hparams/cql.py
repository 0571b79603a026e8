"""Hyperparameters and named sets of CQL for continuous actions (`rl/agents/algos/cql.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.sac import SACHParams
from rl.hparams.tasks import CONTINUOUS, OFFLINE, OFFLINE_IDENTITY, OFFLINE_LOCOMOTION


class CQLHParams(SACHParams):
    """CQL for bounded continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "conservative_weight": "log:0.1:20.0",
    }

    algo: str = "cql"
    memory: str = "dataset"

    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate
    conservative_weight: Coefficient = 5.0  # of the values of actions that are not in the data; 0: SAC
    # how far these may be above the data's before the weight grows, from conservative_weight; None: fixed
    lagrange_threshold: PositiveFloat | None = None
    sampled_actions: PositiveInt = 10  # of each kind, by which the sum over all actions is estimated

    def check(self) -> None:
        """Raises UsageError where there is no weight that could grow."""
        super().check()
        if self.lagrange_threshold is not None and self.conservative_weight == 0.0:
            raise UsageError(
                f"lagrange_threshold={self.lagrange_threshold:g} moves a weight that begins with "
                "conservative_weight=0 and would stay there: begin with 1"
            )


@register
def cql() -> CQLHParams:
    """CQL from any data of bounded continuous actions: give --hparam_override data=DIR."""
    return CQLHParams.of(OFFLINE_LOCOMOTION, lr=1e-4, critic_lr=3e-4)


@register
def cql_pendulum() -> CQLHParams:
    """CQL from data of Pendulum-v1."""
    return cql(
        OFFLINE["Pendulum-v1"],
        model=dict(hidden=(64, 64)),
        lr=3e-4,
        critic_lr=1e-3,
        conservative_weight=1.0,
        sampled_actions=4,
    )


@register
def cql_halfcheetah() -> CQLHParams:
    """CQL from data of HalfCheetah-v5, settings of the authors' code without its Lagrange variant."""
    return cql(
        OFFLINE["HalfCheetah-v5"],
        model=dict(hidden=(256, 256, 256)),
        conservative_weight=2.5,  # their 5, of a squared error without 1/2
    )


@register
def cql_hopper() -> CQLHParams:
    """CQL from data of Hopper-v5, settings of the authors' code without its Lagrange variant."""
    return cql_halfcheetah(OFFLINE["Hopper-v5"])


@register
def cql_identity() -> CQLHParams:
    """CQL from data of Identity-v0, continuous: the smallest test that anything is learned."""
    return cql(OFFLINE_IDENTITY, CONTINUOUS, temperature=0.1, conservative_weight=0.1, critic_lr=3e-3)
