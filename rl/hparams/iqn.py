"""Hyperparameters and named sets of IQN (`rl/agents/algos/iqn.py`)."""

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


class IQNHParams(DQNHParams):
    """DQN's, and how many fractions are drawn where; `huber_delta` is the paper's kappa."""

    algo: str = "iqn"

    loss: Literal["quantile_huber"] = "quantile_huber"  # type: ignore[assignment]
    cosines: PositiveInt = 64  # width of the cosine embedding (n in the paper)
    fractions: PositiveInt = 8  # drawn for the values that are learned (N)
    target_fractions: PositiveInt = 8  # drawn for the target's values (N')
    policy_fractions: PositiveInt = 32  # averaged to choose an action (K)


@register
def iqn() -> IQNHParams:
    """IQN, double and with 3-step returns, on any environment with discrete actions: give --env ID."""
    return any_environment(IQNHParams())


@register
def iqn_cartpole() -> IQNHParams:
    """IQN on CartPole-v1, double, 10-step returns."""
    hparams = dense_networks(IQNHParams())
    cartpole(hparams)
    hparams.model.hidden = (64, 64)
    hparams.cosines = 32
    hparams.policy_fractions = 8
    hparams.target_update_period = 64
    return hparams


@register
def iqn_acrobot() -> IQNHParams:
    """IQN on Acrobot-v1, double, 5-step returns."""
    hparams = dense_networks(IQNHParams())
    acrobot(hparams)
    hparams.model.hidden = (64, 64)
    hparams.cosines = 32
    hparams.policy_fractions = 8
    hparams.updates_per_iteration = 64
    return hparams


@register
def iqn_mountaincar() -> IQNHParams:
    """IQN on MountainCar-v0, double, 5-step returns."""
    hparams = dense_networks(IQNHParams())
    mountaincar(hparams)
    hparams.model.hidden = (64, 64)
    hparams.model.layer_norm = True
    hparams.cosines = 32
    hparams.policy_fractions = 8
    return hparams


@register
def iqn_lunarlander() -> IQNHParams:
    """IQN on LunarLander-v3, double, 3-step returns."""
    hparams = dense_networks(IQNHParams())
    lunarlander(hparams)
    hparams.model.hidden = (64, 64)
    hparams.cosines = 32
    hparams.policy_fractions = 8
    return hparams


@register
def iqn_identity() -> IQNHParams:
    """IQN on Identity-v0: the smallest test that anything is learned."""
    hparams = dense_networks(IQNHParams())
    identity(hparams)
    hparams.lr = 3e-3
    return hparams
