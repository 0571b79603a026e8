"""Hyperparameters and named sets of QR-DQN (`rl/agents/algos/qrdqn.py`)."""

from __future__ import annotations

from typing import Literal

from rl.hparams.dqn import ACROBOT, ANY_ENVIRONMENT, CARTPOLE, IDENTITY, LUNARLANDER, MOUNTAINCAR, DQNHParams
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
    # Returns of some units, as the Huber loss of quantiles expects: without it one of
    # seeds 100 to 102 stood still in CliffWalking.
    return QRDQNHParams.of(ANY_ENVIRONMENT, normalize_reward=True)


@register
def qrdqn_cartpole() -> QRDQNHParams:
    """QR-DQN on CartPole-v1, double, 3-step returns, layer normalisation."""
    return QRDQNHParams.of(
        CARTPOLE,
        n_step=3,  # with 10, as dqn_cartpole, one seed in five falls short of 500
        normalize_observation=True,
        quantiles=10,  # as rl-baselines3-zoo
        huber_delta=5.0,
        target_update_period=64,
        model=dict(layer_norm=True),
    )


@register
def qrdqn_acrobot() -> QRDQNHParams:
    """QR-DQN on Acrobot-v1, double, 5-step returns."""
    return QRDQNHParams.of(ACROBOT, lr=4e-3, updates_per_iteration=192, target_update_period=192)


@register
def qrdqn_mountaincar() -> QRDQNHParams:
    """QR-DQN on MountainCar-v0, double, 5-step returns, layer normalisation."""
    return QRDQNHParams.of(MOUNTAINCAR, lr=2e-3, model=dict(layer_norm=True))


@register
def qrdqn_lunarlander() -> QRDQNHParams:
    """QR-DQN on LunarLander-v3, double, 3-step returns, layer normalisation."""
    return QRDQNHParams.of(LUNARLANDER, target_update_period=250)


@register
def qrdqn_identity() -> QRDQNHParams:
    """QR-DQN on Identity-v0: the smallest test that anything is learned."""
    return QRDQNHParams.of(IDENTITY, lr=3e-3)
