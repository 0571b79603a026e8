"""Hyperparameters and named sets of TD3 (`rl/agents/algos/td3.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.ddpg import (
    BIPEDALWALKER,
    IDENTITY,
    LUNARLANDER_CONTINUOUS,
    MOUNTAINCAR_CONTINUOUS,
    MUJOCO,
    PENDULUM,
    ActorCriticReplayHParams,
    one_update_per_step,
    small_networks,
)
from rl.hparams.hparams import Coefficient, Fraction, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import CONTINUOUS, REPLAY


class TD3HParams(ActorCriticReplayHParams):
    """TD3 for bounded continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "exploration_noise": "0.05:0.5",
        "target_noise": "0.1:0.4",
        "policy_update_period": "1:4",
    }

    anneals: ClassVar[tuple[str, ...]] = ("exploration_noise",)
    algo: str = "td3"
    act_select: str = "gaussian_noise"

    exploration_noise: Coefficient = 0.1  # standard deviation, in half ranges of the action space
    ou_theta: Fraction = 0.15  # act_select=ou_noise: pull of the noise towards 0 in every step
    policy_update_period: PositiveInt = 2  # critic updates between two of the policy and the targets
    target_noise: Coefficient = 0.2  # on the target's actions: standard deviation, in half ranges
    target_noise_clip: Coefficient = 0.5  # largest such noise, in half ranges


@register
def td3() -> TD3HParams:
    """TD3 on any environment with bounded continuous actions: give --env ID."""
    return TD3HParams.of(small_networks(256, 256), one_update_per_step(8, 8))


@register
def td3_pendulum() -> TD3HParams:
    """TD3 on Pendulum-v1."""
    return td3(PENDULUM, target_noise=0.1)


@register
def td3_mountaincar_continuous() -> TD3HParams:
    """TD3 on MountainCarContinuous-v0: noise correlated in time, shaped reward in training."""
    return td3(
        MOUNTAINCAR_CONTINUOUS,
        train_steps=250_000,
        act_select="ou_noise",
        exploration_noise=0.5,
        target_noise=0.1,  # with the paper's 0.2 the last tenth of a point is not learned
    )


@register
def td3_lunarlander_continuous() -> TD3HParams:
    """TD3 with 3-step returns and layer normalisation on LunarLanderContinuous-v3."""
    return td3(
        LUNARLANDER_CONTINUOUS,
        lr=1e-3,
        n_step=3,
        exploration_noise=0.5,  # with 0.2 two of five seeds hover until time is up
        model=dict(layer_norm=True),
    )


@register
def td3_bipedalwalker() -> TD3HParams:
    """TD3 on BipedalWalker-v3, settings of RL Baselines3 Zoo, updates after every 64 steps."""
    return td3(BIPEDALWALKER, train_steps=1_000_000, lr=1e-3, replay_capacity=200_000)


@register
def td3_halfcheetah() -> TD3HParams:
    """TD3 on HalfCheetah-v5: 256 x 256 units, batches of 256, steps of 3e-4, as the authors' code."""
    return td3(REPLAY["HalfCheetah-v5"], MUJOCO)


@register
def td3_hopper() -> TD3HParams:
    """TD3 on Hopper-v5: 256 x 256 units, batches of 256, steps of 3e-4, as the authors' code."""
    return td3(REPLAY["Hopper-v5"], MUJOCO)


@register
def td3_walker2d() -> TD3HParams:
    """TD3 on Walker2d-v5: 256 x 256 units, batches of 256, steps of 3e-4, as the authors' code."""
    return td3(REPLAY["Walker2d-v5"], MUJOCO)


@register
def td3_identity() -> TD3HParams:
    """TD3 on Identity-v0, continuous: the smallest test that anything is learned."""
    return td3(IDENTITY, CONTINUOUS)
