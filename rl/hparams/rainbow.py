"""Hyperparameters and named sets of Rainbow (`rl/agents/algos/rainbow.py`)."""

from __future__ import annotations

from rl.hparams.c51 import C51HParams, scaled_to_support
from rl.hparams.dqn import (
    acrobot,
    any_environment,
    cartpole,
    dense_networks,
    identity,
    lunarlander,
    mountaincar,
)
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
    hparams = any_environment(RainbowHParams())
    scaled_to_support(hparams)
    return hparams


@register
def rainbow_cartpole() -> RainbowHParams:
    """Rainbow on CartPole-v1."""
    hparams = dense_networks(RainbowHParams())
    cartpole(hparams)
    hparams.train_steps = 20_000
    hparams.eval_period = 5_000
    hparams.model.hidden = (64, 64)
    hparams.value_min = 0.0
    hparams.value_max = 100.0
    return hparams


@register
def rainbow_acrobot() -> RainbowHParams:
    """Rainbow on Acrobot-v1."""
    hparams = dense_networks(RainbowHParams())
    acrobot(hparams)
    hparams.train_steps = 250_000
    hparams.model.hidden = (64, 64)
    hparams.lr = 2e-3
    hparams.value_min = -100.0
    hparams.value_max = 0.0
    hparams.updates_per_iteration = 64
    return hparams


@register
def rainbow_mountaincar() -> RainbowHParams:
    """Rainbow on MountainCar-v0."""
    hparams = dense_networks(RainbowHParams())
    mountaincar(hparams)
    hparams.model.hidden = (64, 64)
    hparams.value_min = -50.0
    hparams.value_max = 0.0
    return hparams


@register
def rainbow_lunarlander() -> RainbowHParams:
    """Rainbow on LunarLander-v3."""
    hparams = dense_networks(RainbowHParams())
    lunarlander(hparams)
    hparams.model.layer_norm = False  # not tried with Rainbow yet
    hparams.model.hidden = (64, 64)
    hparams.value_min = -200.0
    hparams.value_max = 300.0
    return hparams


@register
def rainbow_identity() -> RainbowHParams:
    """Rainbow on Identity-v0: the smallest test that anything is learned."""
    hparams = dense_networks(RainbowHParams())
    identity(hparams)
    hparams.value_min = 0.0
    hparams.value_max = 2.0
    hparams.atoms = 11
    hparams.lr = 3e-3
    return hparams
