"""Hyperparameters and named sets of QR-DQN (`rl/agents/algos/qrdqn.py`)."""

from __future__ import annotations

from typing import Literal

from rl.hparams.dqn import (
    DQNHParams,
    acrobot,
    any_environment,
    cartpole,
    dense_networks,
    identity,
    lunarlander,
    mountaincar,
)
from rl.hparams.hparams import PositiveInt
from rl.hparams.registry import register


class QRDQNHParams(DQNHParams):
    """DQN's, and the number of quantiles; `huber_delta` is the paper's kappa."""

    algo: str = "qrdqn"

    loss: Literal["quantile_huber"] = "quantile_huber"  # type: ignore[assignment]
    quantiles: PositiveInt = 32  # of the value distribution


@register
def qrdqn() -> QRDQNHParams:
    """QR-DQN, double and with 3-step returns, on any environment with discrete actions: give --env ID."""
    return any_environment(QRDQNHParams())


@register
def qrdqn_cartpole() -> QRDQNHParams:
    """QR-DQN on CartPole-v1, double, 10-step returns."""
    hparams = dense_networks(QRDQNHParams())
    cartpole(hparams)
    hparams.huber_delta = 5.0
    hparams.target_update_period = 64
    return hparams


@register
def qrdqn_acrobot() -> QRDQNHParams:
    """QR-DQN on Acrobot-v1, double, 5-step returns."""
    hparams = dense_networks(QRDQNHParams())
    acrobot(hparams)
    hparams.lr = 4e-3
    hparams.updates_per_iteration = 192
    hparams.target_update_period = 192
    return hparams


@register
def qrdqn_mountaincar() -> QRDQNHParams:
    """QR-DQN on MountainCar-v0, double, 5-step returns."""
    hparams = dense_networks(QRDQNHParams())
    mountaincar(hparams)
    hparams.lr = 2e-3
    return hparams


@register
def qrdqn_lunarlander() -> QRDQNHParams:
    """QR-DQN on LunarLander-v3, double, 3-step returns."""
    hparams = dense_networks(QRDQNHParams())
    lunarlander(hparams)
    hparams.target_update_period = 250
    return hparams


@register
def qrdqn_identity() -> QRDQNHParams:
    """QR-DQN on Identity-v0: the smallest test that anything is learned."""
    hparams = dense_networks(QRDQNHParams())
    identity(hparams)
    hparams.lr = 3e-3
    return hparams
