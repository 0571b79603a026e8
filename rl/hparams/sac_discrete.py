"""Hyperparameters and named sets of discrete SAC (`rl/agents/algos/sac_discrete.py`)."""

from __future__ import annotations

from rl.hparams.ddpg import identity, small_networks
from rl.hparams.hparams import Coefficient
from rl.hparams.registry import register
from rl.hparams.sac import TemperatureHParams


class SACDiscreteHParams(TemperatureHParams):
    """SAC for discrete actions."""

    algo: str = "sac_discrete"

    target_entropy_scale: Coefficient = 0.98  # of the uniform choice's entropy


@register
def sac_discrete() -> SACDiscreteHParams:
    """SAC on any environment with discrete actions: give --env ID."""
    hparams = SACDiscreteHParams()
    small_networks(hparams, 128, 128)
    hparams.lr = 5e-4
    hparams.num_envs = 8
    hparams.rollout_length = 8
    hparams.updates_per_iteration = 32
    hparams.n_step = 3
    hparams.tau = 0.01
    hparams.target_entropy_scale = 0.3  # the paper's 0.98 keeps the policy nearly uniform
    hparams.batch_size = 128
    return hparams


@register
def sac_discrete_cartpole() -> SACDiscreteHParams:
    """SAC on CartPole-v1."""
    hparams = SACDiscreteHParams()
    hparams.env = "CartPole-v1"
    hparams.train_steps = 100_000
    hparams.eval_period = 10_000
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.batch_size = 128
    hparams.target_entropy_scale = 0.1
    small_networks(hparams, 128, 128)
    hparams.num_envs = 8
    hparams.rollout_length = 8
    hparams.updates_per_iteration = 32
    hparams.n_step = 10
    hparams.tau = 0.02
    return hparams


@register
def sac_discrete_acrobot() -> SACDiscreteHParams:
    """SAC on Acrobot-v1."""
    hparams = SACDiscreteHParams()
    hparams.env = "Acrobot-v1"
    hparams.train_steps = 100_000
    hparams.eval_period = 10_000
    hparams.lr = 1e-3
    hparams.target_entropy_scale = 0.2
    small_networks(hparams, 64, 64)
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 64
    hparams.n_step = 5
    hparams.tau = 0.02
    return hparams


@register
def sac_discrete_identity() -> SACDiscreteHParams:
    """SAC on Identity-v0: the smallest test that anything is learned."""
    hparams = SACDiscreteHParams()
    identity(hparams)
    hparams.temperature = 0.1
    hparams.target_entropy_scale = 0.2
    return hparams
