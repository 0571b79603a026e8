"""Hyperparameters and named sets of QR-DQN (`rl/agents/algos/qrdqn.py`)."""

from __future__ import annotations

from typing import Literal

from rl.hparams.dqn import DQNHParams, acrobot, cartpole, identity, lunarlander, mountaincar
from rl.hparams.hparams import PositiveInt
from rl.hparams.registry import register


class QRDQNHParams(DQNHParams):
    """DQN's, and the number of quantiles; `huber_delta` is the paper's kappa."""

    algo: str = "qrdqn"

    double: bool = False
    loss: Literal["quantile_huber"] = "quantile_huber"  # type: ignore[assignment]
    quantiles: PositiveInt = 32


@register
def qrdqn() -> QRDQNHParams:
    """QR-DQN on any environment with discrete actions: give --env ID."""
    hparams = QRDQNHParams()
    hparams.model.activation = "relu"
    hparams.model.init = "lecun_uniform"
    return hparams


@register
def qrdqn_cartpole() -> QRDQNHParams:
    """QR-DQN on CartPole-v1."""
    hparams = qrdqn()
    cartpole(hparams)
    hparams.double = True
    hparams.huber_delta = 5.0
    hparams.target_update_period = 64
    return hparams


@register
def qrdqn_acrobot() -> QRDQNHParams:
    """QR-DQN on Acrobot-v1."""
    hparams = qrdqn()
    acrobot(hparams)
    hparams.double = True
    return hparams


@register
def qrdqn_mountaincar() -> QRDQNHParams:
    """QR-DQN on MountainCar-v0."""
    hparams = qrdqn()
    mountaincar(hparams)
    hparams.double = True
    return hparams


@register
def qrdqn_lunarlander() -> QRDQNHParams:
    """QR-DQN on LunarLander-v3."""
    hparams = qrdqn()
    lunarlander(hparams)
    hparams.double = True
    hparams.target_update_period = 250
    return hparams


@register
def qrdqn_identity() -> QRDQNHParams:
    """QR-DQN on Identity-v0: the smallest test that anything is learned."""
    hparams = qrdqn()
    identity(hparams)
    hparams.lr = 3e-3
    return hparams
