"""Hyperparameters and named sets of C51 (`rl/agents/algos/c51.py`)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rl.errors import UsageError
from rl.hparams.dqn import ACROBOT, ANY_ENVIRONMENT, CARTPOLE, IDENTITY, LUNARLANDER, MOUNTAINCAR, DQNHParams
from rl.hparams.registry import register


class C51HParams(DQNHParams):
    """DQN's, and the atoms on which returns are distributed; `huber_delta` has no effect."""

    algo: str = "c51"

    loss: Literal["cross_entropy"] = "cross_entropy"  # type: ignore[assignment]
    atoms: Annotated[int, Field(ge=2)] = 51  # of the value distribution
    value_min: float = -10.0  # least discounted return that can be told from a lesser one
    value_max: float = 10.0  # largest discounted return that can be told from a larger one

    def check(self) -> None:
        """Raises UsageError where the atoms span nothing, or DQN's do not fit together."""
        super().check()
        if self.value_min >= self.value_max:
            raise UsageError(
                f"hparam value_min={self.value_min:g} is not below value_max={self.value_max:g}: "
                "the atoms lie between them"
            )


@register
def c51() -> C51HParams:
    """C51, double and with 3-step returns, on any environment with discrete actions: give --env ID."""
    return C51HParams.of(
        ANY_ENVIRONMENT,
        normalize_reward=True,  # returns then lie within the support of -10 to 10, whatever their units
    )


@register
def c51_cartpole() -> C51HParams:
    """C51 on CartPole-v1, double, 10-step returns."""
    return C51HParams.of(CARTPOLE, value_min=0.0, value_max=100.0)


@register
def c51_acrobot() -> C51HParams:
    """C51 on Acrobot-v1, double, 10-step returns."""
    return C51HParams.of(ACROBOT, value_min=-100.0, value_max=0.0, n_step=10, updates_per_iteration=64)


@register
def c51_mountaincar() -> C51HParams:
    """C51 on MountainCar-v0, double, 5-step returns."""
    return C51HParams.of(MOUNTAINCAR, value_min=-50.0, value_max=0.0)


@register
def c51_lunarlander() -> C51HParams:
    """C51 on LunarLander-v3, double, 3-step returns, layer normalisation."""
    return C51HParams.of(LUNARLANDER, value_min=-200.0, value_max=300.0)


@register
def c51_identity() -> C51HParams:
    """C51 on Identity-v0: the smallest test that anything is learned."""
    return C51HParams.of(IDENTITY, value_min=0.0, value_max=2.0, atoms=11, lr=3e-3)
