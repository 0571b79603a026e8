"""Hyperparameters and named sets of Rainbow (`rl/agents/algos/rainbow.py`)."""

from __future__ import annotations

from rl.hparams.c51 import C51HParams
from rl.hparams.dqn import ACROBOT, ANY_ENVIRONMENT, CARTPOLE, IDENTITY, LUNARLANDER, MOUNTAINCAR
from rl.hparams.hparams import Fraction, PositiveFloat, PositiveInt
from rl.hparams.registry import register


class RainbowHParams(C51HParams):
    """C51's with every part on (the paper's table 1); `exploration_*` has no effect while `noisy` is on."""

    algo: str = "rainbow"

    double: bool = True
    dueling: bool = True
    noisy: bool = True
    prioritized: bool = True
    n_step: PositiveInt = 3
    priority_exponent: Fraction = 0.5
    adam_epsilon: PositiveFloat = 1.5e-4


@register
def rainbow() -> RainbowHParams:
    """Rainbow on any environment with discrete actions: give --env ID."""
    return RainbowHParams.of(ANY_ENVIRONMENT, normalize_reward=True)


@register
def rainbow_cartpole() -> RainbowHParams:
    """Rainbow with 10-step returns on CartPole-v1."""
    return RainbowHParams.of(
        CARTPOLE,
        train_steps=20_000,
        eval_period=5_000,
        value_min=0.0,
        value_max=100.0,
        model=dict(hidden=(64, 64)),
    )


@register
def rainbow_acrobot() -> RainbowHParams:
    """Rainbow with 5-step returns on Acrobot-v1."""
    return RainbowHParams.of(
        ACROBOT,
        train_steps=250_000,
        lr=2e-3,
        value_min=-100.0,
        value_max=0.0,
        updates_per_iteration=64,
        model=dict(hidden=(64, 64)),
    )


@register
def rainbow_mountaincar() -> RainbowHParams:
    """Rainbow with 5-step returns on MountainCar-v0."""
    return RainbowHParams.of(MOUNTAINCAR, value_min=-50.0, value_max=0.0, model=dict(hidden=(64, 64)))


@register
def rainbow_lunarlander() -> RainbowHParams:
    """Rainbow with layer normalisation on LunarLander-v3."""
    return RainbowHParams.of(LUNARLANDER, value_min=-200.0, value_max=300.0)


@register
def rainbow_identity() -> RainbowHParams:
    """Rainbow on Identity-v0: the smallest test that anything is learned."""
    return RainbowHParams.of(IDENTITY, value_min=0.0, value_max=2.0, atoms=11, lr=3e-3)
