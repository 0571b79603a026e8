"""Hyperparameters and named sets of TD3 (`rl/agents/algos/td3.py`)."""

from __future__ import annotations

from rl.hparams.ddpg import ActorCriticReplayHParams, identity, mujoco, one_update_per_step, small_networks
from rl.hparams.hparams import Coefficient, Fraction, PositiveInt
from rl.hparams.registry import register


class TD3HParams(ActorCriticReplayHParams):
    """TD3 for bounded continuous actions."""

    algo: str = "td3"
    act_select: str = "gaussian_noise"

    exploration_noise: Coefficient = 0.1  # standard deviation, in half ranges of the action space
    ou_theta: Fraction = 0.15  # act_select=ou_noise: pull of the noise towards 0 in every step
    policy_update_period: PositiveInt = 2  # critic updates between two of the policy and the targets
    target_noise: Coefficient = 0.2  # on the target's actions: standard deviation, in half ranges
    target_noise_clip: Coefficient = 0.5  # and limit


@register
def td3() -> TD3HParams:
    """TD3 on any environment with bounded continuous actions: give --env ID."""
    hparams = TD3HParams()
    small_networks(hparams, 256, 256)
    one_update_per_step(hparams, 8, 8)
    return hparams


@register
def td3_pendulum() -> TD3HParams:
    """TD3 on Pendulum-v1."""
    hparams = td3()
    hparams.env = "Pendulum-v1"
    hparams.train_steps = 20_000
    hparams.eval_period = 2_000
    hparams.log_period = 2_000
    hparams.gamma = 0.99
    hparams.tau = 0.01
    hparams.target_noise = 0.1
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    small_networks(hparams, 64, 64)
    hparams.num_envs = 4
    hparams.rollout_length = 8
    hparams.updates_per_iteration = 64
    return hparams


@register
def td3_mountaincar_continuous() -> TD3HParams:
    """TD3 on MountainCarContinuous-v0: noise correlated in time, shaped reward in training."""
    hparams = td3()
    hparams.env = "MountainCarContinuous-v0"
    hparams.reward_augmentation = "mountain_car_energy"
    hparams.act_select = "ou_noise"
    hparams.exploration_noise = 0.3
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
def td3_lunarlander_continuous() -> TD3HParams:
    """TD3 on LunarLanderContinuous-v3."""
    hparams = td3()
    hparams.env = "LunarLanderContinuous-v3"
    hparams.train_steps = 300_000
    hparams.eval_period = 25_000
    hparams.lr = 1e-3
    hparams.replay_capacity = 200_000
    hparams.min_replay_size = 5_000
    hparams.random_steps = 5_000
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 64
    hparams.batch_size = 128
    hparams.n_step = 3
    hparams.model.hidden = (128, 128)
    hparams.exploration_noise = 0.2
    return hparams


@register
def td3_bipedalwalker() -> TD3HParams:
    """TD3 on BipedalWalker-v3, settings of RL Baselines3 Zoo, updates after every 64 steps."""
    hparams = td3()
    hparams.env = "BipedalWalker-v3"
    hparams.train_steps = 1_000_000
    hparams.eval_period = 25_000
    one_update_per_step(hparams, 1, 64)
    small_networks(hparams, 400, 300)
    hparams.gamma = 0.98
    hparams.lr = 1e-3
    hparams.replay_capacity = 200_000
    hparams.min_replay_size = 10_000
    hparams.random_steps = 10_000
    return hparams


@register
def td3_halfcheetah() -> TD3HParams:
    """TD3 on HalfCheetah-v5: 256 x 256 units, batches of 256, steps of 3e-4, as the authors' code."""
    hparams = td3()
    mujoco(hparams, "HalfCheetah-v5")
    return hparams


@register
def td3_hopper() -> TD3HParams:
    """TD3 on Hopper-v5: 256 x 256 units, batches of 256, steps of 3e-4, as the authors' code."""
    hparams = td3()
    mujoco(hparams, "Hopper-v5")
    return hparams


@register
def td3_walker2d() -> TD3HParams:
    """TD3 on Walker2d-v5: 256 x 256 units, batches of 256, steps of 3e-4, as the authors' code."""
    hparams = td3()
    mujoco(hparams, "Walker2d-v5")
    return hparams


@register
def td3_identity() -> TD3HParams:
    """TD3 on Identity-v0's continuous sibling: the smallest test that anything is learned."""
    hparams = td3()
    identity(hparams)
    return hparams
