"""Hyperparameters and named sets of VPG (`rl/agents/algos/vpg.py`)."""

from __future__ import annotations

from typing import Literal

from rl.hparams.hparams import Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register


class VPGHParams(HParams):
    """VPG for discrete, multi-discrete, multi-binary and continuous actions."""

    algo: str = "vpg"
    rollout_length: PositiveInt = 128
    max_grad_norm: PositiveFloat | None = 0.5

    advantage: Literal["reward_to_go", "gae"] = "gae"  # reward_to_go: no value is subtracted
    gae_lambda: Fraction = 0.97  # with advantage=gae
    normalize_advantage: bool = True  # advantages of a batch get mean 0 and deviation 1
    value_updates: PositiveInt = 10  # gradient steps of the value after each one of the policy
    value_lr: PositiveFloat = 1e-3  # learning rate of the value network
    log_std_init: float = -0.5  # continuous actions: logarithm of the initial standard deviation


@register
def vpg() -> VPGHParams:
    """VPG on any environment with discrete or continuous actions: give --env ID."""
    hparams = VPGHParams()
    hparams.normalize_reward = True
    hparams.rollout_length = 32
    hparams.lr = 3e-3
    hparams.lr_schedule = "linear"
    hparams.value_lr = 3e-3
    return hparams


@register
def vpg_cartpole() -> VPGHParams:
    """VPG on CartPole-v1."""
    hparams = VPGHParams()
    hparams.env = "CartPole-v1"
    hparams.train_steps = 500_000
    hparams.eval_period = 50_000
    hparams.num_envs = 16
    hparams.rollout_length = 64
    hparams.lr = 7e-3
    hparams.lr_schedule = "linear"
    hparams.value_lr = 7e-3
    return hparams


@register
def vpg_cartpole_reward_to_go() -> VPGHParams:
    """VPG on CartPole-v1 without a baseline."""
    hparams = vpg_cartpole()
    hparams.advantage = "reward_to_go"
    return hparams


@register
def vpg_acrobot() -> VPGHParams:
    """VPG on Acrobot-v1."""
    hparams = VPGHParams()
    hparams.env = "Acrobot-v1"
    hparams.normalize_observation = True
    hparams.train_steps = 500_000
    hparams.eval_period = 50_000
    hparams.num_envs = 16
    hparams.rollout_length = 64
    hparams.lr = 5e-3
    hparams.lr_schedule = "linear"
    hparams.value_lr = 5e-3
    return hparams


@register
def vpg_mountaincar() -> VPGHParams:
    """VPG on MountainCar-v0, shaped reward in training."""
    hparams = VPGHParams()
    hparams.env = "MountainCar-v0"
    hparams.reward_augmentation = "mountain_car_default"
    hparams.normalize_observation = True
    hparams.train_steps = 1_000_000
    hparams.eval_period = 100_000
    hparams.num_envs = 16
    hparams.rollout_length = 64
    hparams.lr = 3e-3
    hparams.lr_schedule = "linear"
    hparams.value_lr = 3e-3
    return hparams


@register
def vpg_identity() -> VPGHParams:
    """VPG on Identity-v0: the smallest test that anything is learned."""
    hparams = VPGHParams()
    hparams.env = "Identity-v0"
    hparams.train_steps = 8_192
    hparams.num_envs = 8
    hparams.rollout_length = 8
    hparams.gamma = 0.0
    hparams.lr = 1e-2
    hparams.value_lr = 1e-2
    hparams.value_updates = 2
    hparams.log_period = 1_000
    return hparams
