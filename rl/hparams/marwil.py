"""Hyperparameters and named sets of MARWIL (`rl/agents/algos/marwil.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.bc import CloningHParams
from rl.hparams.ddpg import small_networks
from rl.hparams.hparams import Coefficient, Fraction, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import OFFLINE


class MARWILHParams(CloningHParams):
    """MARWIL for actions of any kind."""

    searched: ClassVar[dict[str, str]] = {
        "gamma": "[0.95,0.99,0.995]",
        "beta": "0.1:3.0",
    }

    algo: str = "marwil"

    beta: Coefficient = 1.0  # how much advantages weigh; 0: BC
    max_weight: PositiveFloat = 20.0  # largest weight of an action
    advantage_rate: Fraction = 1e-4  # share of an update's advantages in the running mean of their squares
    n_step: PositiveInt = 100_000  # rewards summed before the value; more than an episode's: its whole return
    value_lr: PositiveFloat | None = None  # learning rate of the value; None: lr, which is the policy's


@register
def marwil() -> MARWILHParams:
    """MARWIL from any data: give --hparam_override data=DIR."""
    return MARWILHParams.of(small_networks(256, 256), train_steps=50_000)


@register
def marwil_cartpole() -> MARWILHParams:
    """MARWIL from data of CartPole-v1."""
    return marwil(OFFLINE["CartPole-v1"], small_networks(64, 64))


@register
def marwil_hopper() -> MARWILHParams:
    """MARWIL from data of Hopper-v5; not measured here."""
    return marwil(OFFLINE["Hopper-v5"], lr=3e-4)


@register
def marwil_identity() -> MARWILHParams:
    """MARWIL from data of Identity-v0: the smallest test that anything is learned."""
    return marwil(OFFLINE["Identity-v0"], small_networks(32, 32), lr=3e-3)
