"""Hyperparameters and named sets of QR-DQN (`rl/agents/algos/qrdqn.py`)."""

from __future__ import annotations

from typing import Literal

from rl.hparams.dqn import DQNHParams
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
    """QR-DQN on CartPole-v1.

    `python train.py --hparams qrdqn_cartpole`: 448 after 50,000 steps, in 17 s (2 cores, shared).
    Three seeds: benchmarks/results/README.md.
    """
    hparams = qrdqn()
    hparams.env = "CartPole-v1"
    hparams.train_steps = 50_000
    hparams.eval_period = 10_000
    hparams.model.hidden = (128, 128)
    hparams.lr = 2e-3
    hparams.lr_schedule = "linear"
    hparams.double = True
    hparams.huber_delta = 5.0
    hparams.n_step = 10
    hparams.batch_size = 128
    hparams.replay_capacity = 100_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 8
    hparams.rollout_length = 32
    hparams.updates_per_iteration = 128
    hparams.target_update_period = 64
    hparams.exploration_steps = 8_000
    hparams.exploration_epsilon_end = 0.04
    return hparams


@register
def qrdqn_acrobot() -> QRDQNHParams:
    """QR-DQN on Acrobot-v1.

    `python train.py --hparams qrdqn_acrobot`: -81 after 100,000 steps (one seed; 35 s of CPU time).
    """
    hparams = qrdqn()
    hparams.env = "Acrobot-v1"
    hparams.train_steps = 100_000
    hparams.eval_period = 20_000
    hparams.model.hidden = (128, 128)
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.double = True
    hparams.n_step = 5
    hparams.batch_size = 128
    hparams.replay_capacity = 50_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 8
    hparams.rollout_length = 32
    hparams.updates_per_iteration = 128
    hparams.target_update_period = 128
    hparams.exploration_steps = 12_000
    hparams.exploration_epsilon_end = 0.04
    return hparams


@register
def qrdqn_mountaincar() -> QRDQNHParams:
    """QR-DQN on MountainCar-v0.

    `python train.py --hparams qrdqn_mountaincar`: -98 after 120,000 steps (one seed; 40 s of CPU time).
    """
    hparams = qrdqn()
    hparams.env = "MountainCar-v0"
    hparams.train_steps = 120_000
    hparams.eval_period = 20_000
    hparams.model.hidden = (128, 128)
    hparams.gamma = 0.98
    hparams.lr = 4e-3
    hparams.lr_schedule = "linear"
    hparams.double = True
    hparams.n_step = 5
    hparams.batch_size = 128
    hparams.replay_capacity = 10_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 64
    hparams.target_update_period = 192
    hparams.exploration_steps = 24_000
    hparams.exploration_epsilon_end = 0.07
    return hparams


@register
def qrdqn_lunarlander() -> QRDQNHParams:
    """QR-DQN on LunarLander-v3."""
    hparams = qrdqn()
    hparams.env = "LunarLander-v3"
    hparams.train_steps = 100_000
    hparams.eval_period = 20_000
    hparams.model.hidden = (128, 128)
    hparams.lr = 7e-4
    hparams.lr_schedule = "linear"
    hparams.double = True
    hparams.n_step = 3
    hparams.batch_size = 128
    hparams.replay_capacity = 100_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 128
    hparams.target_update_period = 500
    hparams.exploration_steps = 12_000
    hparams.exploration_epsilon_end = 0.04
    return hparams


@register
def qrdqn_identity() -> QRDQNHParams:
    """QR-DQN on Identity-v0: the smallest test that anything is learned."""
    hparams = qrdqn()
    hparams.env = "Identity-v0"
    hparams.train_steps = 4_000
    hparams.gamma = 0.0
    hparams.lr = 3e-3
    hparams.replay_capacity = 2_000
    hparams.min_replay_size = 100
    hparams.batch_size = 64
    hparams.num_envs = 8
    hparams.rollout_length = 4
    hparams.updates_per_iteration = 4
    hparams.target_update_period = 50
    hparams.exploration_steps = 2_000
    hparams.log_period = 1_000
    return hparams
