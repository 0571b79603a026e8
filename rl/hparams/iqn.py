"""Hyperparameters and named sets of IQN (`rl/agents/algos/iqn.py`)."""

from __future__ import annotations

from typing import Literal

from rl.hparams.dqn import ACROBOT, ANY_ENVIRONMENT, CARTPOLE, IDENTITY, LUNARLANDER, MOUNTAINCAR, DQNHParams
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


SMALL = dict(cosines=32, policy_fractions=8, model=dict(hidden=(64, 64)))


@register
def iqn() -> IQNHParams:
    """IQN, double and with 3-step returns, on any environment with discrete actions: give --env ID."""
    return IQNHParams.of(ANY_ENVIRONMENT)


@register
def iqn_cartpole() -> IQNHParams:
    """IQN on CartPole-v1, double, 10-step returns."""
    return IQNHParams.of(CARTPOLE, SMALL, target_update_period=64)


@register
def iqn_acrobot() -> IQNHParams:
    """IQN on Acrobot-v1, double, 5-step returns."""
    return IQNHParams.of(ACROBOT, SMALL, updates_per_iteration=64)


@register
def iqn_mountaincar() -> IQNHParams:
    """IQN on MountainCar-v0, double, 5-step returns, layer normalisation."""
    return IQNHParams.of(MOUNTAINCAR, SMALL, model=dict(layer_norm=True))


@register
def iqn_lunarlander() -> IQNHParams:
    """IQN on LunarLander-v3, double, 3-step returns, layer normalisation."""
    return IQNHParams.of(LUNARLANDER, SMALL)


@register
def iqn_identity() -> IQNHParams:
    """IQN on Identity-v0: the smallest test that anything is learned."""
    return IQNHParams.of(IDENTITY, lr=3e-3)
