"""Hyperparameters and named sets of TQC (`rl/agents/algos/tqc.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.ddpg import (
    BIPEDALWALKER,
    IDENTITY,
    LUNARLANDER_CONTINUOUS,
    MUJOCO,
    one_update_per_step,
    small_networks,
)
from rl.hparams.hparams import Count, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.sac import SACHParams
from rl.hparams.tasks import CONTINUOUS, REPLAY


class TQCHParams(SACHParams):
    """SAC's, and how the distributions of returns are made and cut."""

    searched: ClassVar[dict[str, str]] = {
        "dropped_quantiles": "[0,1,2,3,5]",
    }

    algo: str = "tqc"

    critics: PositiveInt = 2  # side by side, whose quantiles are pooled
    quantiles: PositiveInt = 25  # of the value distribution, of each critic
    dropped_quantiles: Count = 2  # of each critic on average, the largest; more lower the estimate
    huber_delta: PositiveFloat = 1.0  # where the huber loss turns from square to linear

    def check(self) -> None:
        """Raises UsageError where no quantile would be left."""
        super().check()
        if self.dropped_quantiles >= self.quantiles:
            raise UsageError(
                f"hparam dropped_quantiles={self.dropped_quantiles} leaves none of "
                f"quantiles={self.quantiles}: take fewer"
            )


@register
def tqc() -> TQCHParams:
    """TQC on any environment with bounded continuous actions: give --env ID."""
    return TQCHParams.of(small_networks(256, 256), one_update_per_step(8, 8))


@register
def tqc_pendulum() -> TQCHParams:
    """TQC on Pendulum-v1."""
    return tqc(REPLAY["Pendulum-v1"], small_networks(64, 64), one_update_per_step(4, 8), lr=1e-3)


@register
def tqc_lunarlander_continuous() -> TQCHParams:
    """TQC with 5-step returns on LunarLanderContinuous-v3."""
    return tqc(LUNARLANDER_CONTINUOUS, train_steps=500_000, lr=7.3e-4, tau=0.01, n_step=5)


@register
def tqc_bipedalwalker() -> TQCHParams:
    """TQC on BipedalWalker-v3, settings of RL Baselines3 Zoo without its state-dependent exploration."""
    return tqc(BIPEDALWALKER, tau=0.02, lr=7.3e-4, replay_capacity=300_000)


@register
def tqc_halfcheetah() -> TQCHParams:
    """TQC on HalfCheetah-v5, the paper's 5 critics and no quantile dropped, SAC's smaller networks."""
    return tqc(REPLAY["HalfCheetah-v5"], MUJOCO, critics=5, dropped_quantiles=0)


@register
def tqc_hopper() -> TQCHParams:
    """TQC on Hopper-v5, the paper's 5 critics and 5 quantiles dropped of each, SAC's smaller networks."""
    return tqc(REPLAY["Hopper-v5"], MUJOCO, critics=5, dropped_quantiles=5)


@register
def tqc_walker2d() -> TQCHParams:
    """TQC on Walker2d-v5, the paper's 5 critics, SAC's smaller networks."""
    return tqc(REPLAY["Walker2d-v5"], MUJOCO, critics=5)


@register
def tqc_identity() -> TQCHParams:
    """TQC on Identity-v0, continuous: the smallest test that anything is learned."""
    return tqc(IDENTITY, CONTINUOUS, temperature=0.1)
