"""Hyperparameters and named sets of SAC (`rl/agents/algos/sac.py`)."""

from __future__ import annotations

from rl.hparams.ddpg import (
    BIPEDALWALKER,
    IDENTITY,
    LUNARLANDER_CONTINUOUS,
    MOUNTAINCAR_CONTINUOUS,
    MUJOCO,
    ActorCriticReplayHParams,
    one_update_per_step,
    small_networks,
)
from rl.hparams.hparams import PositiveFloat
from rl.hparams.registry import register
from rl.hparams.tasks import CONTINUOUS, REPLAY


class TemperatureHParams(ActorCriticReplayHParams):
    """What both kinds of SAC have."""

    temperature: PositiveFloat = 1.0  # weight of the entropy, at the start where it is learned
    learn_temperature: bool = True  # the temperature follows target_entropy
    temperature_lr: PositiveFloat | None = None  # learning rate of the temperature; None: lr


class SACHParams(TemperatureHParams):
    """SAC for bounded continuous actions."""

    algo: str = "sac"

    target_entropy: float | None = None  # in nats, of actions in [-1, 1]; None: minus their number


@register
def sac() -> SACHParams:
    """SAC on any environment with bounded continuous actions: give --env ID."""
    return SACHParams.of(small_networks(256, 256), one_update_per_step(8, 8))


@register
def sac_pendulum() -> SACHParams:
    """SAC on Pendulum-v1."""
    return sac(REPLAY["Pendulum-v1"], small_networks(64, 64), one_update_per_step(4, 8), lr=1e-3)


@register
def sac_mountaincar_continuous() -> SACHParams:
    """SAC on MountainCarContinuous-v0, shaped reward in training."""
    return sac(MOUNTAINCAR_CONTINUOUS)


@register
def sac_lunarlander_continuous() -> SACHParams:
    """SAC with 5-step returns on LunarLanderContinuous-v3."""
    return sac(LUNARLANDER_CONTINUOUS, lr=7.3e-4, tau=0.01, n_step=5)


@register
def sac_bipedalwalker() -> SACHParams:
    """SAC on BipedalWalker-v3, settings of RL Baselines3 Zoo without its state-dependent exploration."""
    return sac(BIPEDALWALKER, tau=0.02, lr=7.3e-4, replay_capacity=300_000)


@register
def sac_halfcheetah() -> SACHParams:
    """SAC on HalfCheetah-v5, settings of Haarnoja et al. 2018, updates after every 50 steps."""
    return sac(REPLAY["HalfCheetah-v5"], MUJOCO)


@register
def sac_hopper() -> SACHParams:
    """SAC on Hopper-v5, settings of Haarnoja et al. 2018, updates after every 50 steps."""
    return sac(REPLAY["Hopper-v5"], MUJOCO)


@register
def sac_walker2d() -> SACHParams:
    """SAC on Walker2d-v5, settings of Haarnoja et al. 2018, updates after every 50 steps."""
    return sac(REPLAY["Walker2d-v5"], MUJOCO)


@register
def sac_identity() -> SACHParams:
    """SAC on Identity-v0, continuous: the smallest test that anything is learned."""
    return sac(IDENTITY, CONTINUOUS, temperature=0.1)
