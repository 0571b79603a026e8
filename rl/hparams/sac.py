"""Hyperparameters and named sets of SAC (`rl/agents/algos/sac.py`)."""

from __future__ import annotations

from rl.hparams.ddpg import ActorCriticReplayHParams, identity, mujoco, one_update_per_step, small_networks
from rl.hparams.hparams import PositiveFloat
from rl.hparams.registry import register


class TemperatureHParams(ActorCriticReplayHParams):
    """What both kinds of SAC have."""

    temperature: PositiveFloat = 1.0  # weight of the entropy, at the start where it is learned
    learn_temperature: bool = True  # the temperature follows target_entropy
    temperature_lr: PositiveFloat | None = None  # None: lr


class SACHParams(TemperatureHParams):
    """SAC for bounded continuous actions."""

    algo: str = "sac"

    target_entropy: float | None = None  # in nats, of actions in [-1, 1]; None: minus their number


@register
def sac() -> SACHParams:
    """SAC on any environment with bounded continuous actions: give --env ID."""
    hparams = SACHParams()
    small_networks(hparams, 256, 256)
    one_update_per_step(hparams, 8, 8)
    return hparams


@register
def sac_pendulum() -> SACHParams:
    """SAC on Pendulum-v1."""
    hparams = sac()
    hparams.env = "Pendulum-v1"
    hparams.train_steps = 20_000
    hparams.eval_period = 2_000
    hparams.log_period = 2_000
    hparams.lr = 1e-3
    small_networks(hparams, 64, 64)
    one_update_per_step(hparams, 4, 8)
    return hparams


@register
def sac_mountaincar_continuous() -> SACHParams:
    """SAC on MountainCarContinuous-v0, shaped reward in training."""
    hparams = sac()
    hparams.env = "MountainCarContinuous-v0"
    hparams.reward_augmentation = "mountain_car_energy"
    hparams.train_steps = 50_000
    hparams.eval_period = 5_000
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    small_networks(hparams, 64, 64)
    hparams.num_envs = 4
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 32
    return hparams


@register
def sac_lunarlander_continuous() -> SACHParams:
    """SAC on LunarLanderContinuous-v3."""
    hparams = sac()
    hparams.env = "LunarLanderContinuous-v3"
    hparams.train_steps = 300_000
    hparams.eval_period = 25_000
    hparams.lr = 7.3e-4
    hparams.tau = 0.01
    hparams.replay_capacity = 200_000
    hparams.min_replay_size = 5_000
    hparams.random_steps = 5_000
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 64
    hparams.batch_size = 128
    hparams.n_step = 5
    hparams.model.hidden = (128, 128)
    return hparams


@register
def sac_bipedalwalker() -> SACHParams:
    """SAC on BipedalWalker-v3, settings of RL Baselines3 Zoo without its state-dependent exploration."""
    hparams = sac()
    hparams.env = "BipedalWalker-v3"
    hparams.train_steps = 500_000
    hparams.eval_period = 25_000
    one_update_per_step(hparams, 1, 64)
    small_networks(hparams, 400, 300)
    hparams.gamma = 0.98
    hparams.tau = 0.02
    hparams.lr = 7.3e-4
    hparams.replay_capacity = 300_000
    hparams.min_replay_size = 10_000
    hparams.random_steps = 10_000
    return hparams


@register
def sac_halfcheetah() -> SACHParams:
    """SAC on HalfCheetah-v5, settings of Haarnoja et al. 2018, updates after every 50 steps."""
    hparams = sac()
    mujoco(hparams, "HalfCheetah-v5")
    return hparams


@register
def sac_hopper() -> SACHParams:
    """SAC on Hopper-v5, settings of Haarnoja et al. 2018, updates after every 50 steps."""
    hparams = sac()
    mujoco(hparams, "Hopper-v5")
    return hparams


@register
def sac_walker2d() -> SACHParams:
    """SAC on Walker2d-v5, settings of Haarnoja et al. 2018, updates after every 50 steps."""
    hparams = sac()
    mujoco(hparams, "Walker2d-v5")
    return hparams


@register
def sac_identity() -> SACHParams:
    """SAC on Identity-v0's continuous sibling: the smallest test that anything is learned."""
    hparams = sac()
    identity(hparams)
    hparams.temperature = 0.1
    return hparams
