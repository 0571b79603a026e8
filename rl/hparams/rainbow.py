"""Hyperparameters and named sets of Rainbow (`rl/agents/algos/rainbow.py`)."""

from __future__ import annotations

from rl.hparams.c51 import C51HParams
from rl.hparams.hparams import Fraction, PositiveFloat, PositiveInt
from rl.hparams.registry import register


class RainbowHParams(C51HParams):
    """C51's with every part on (the paper's table 1); `exploration_*` has no effect while `noisy` is on."""

    algo: str = "rainbow"

    double: bool = True
    dueling: bool = True
    noisy: bool = True
    prioritized: bool = True
    n_step: PositiveInt = 3
    priority_exponent: Fraction = 0.5
    adam_epsilon: PositiveFloat = 1.5e-4


@register
def rainbow() -> RainbowHParams:
    """Rainbow on any environment with discrete actions: give --env ID, value_min and value_max."""
    hparams = RainbowHParams()
    hparams.model.activation = "relu"
    hparams.model.init = "lecun_uniform"
    return hparams


@register
def rainbow_cartpole() -> RainbowHParams:
    """Rainbow on CartPole-v1.

    `python train.py --hparams rainbow_cartpole`: 500 after 20,000 steps, in 21 s (2 cores, shared).
    Three seeds: benchmarks/results/README.md.
    """
    hparams = rainbow()
    hparams.env = "CartPole-v1"
    hparams.train_steps = 20_000
    hparams.eval_period = 5_000
    hparams.model.hidden = (64, 64)
    hparams.lr = 2e-3
    hparams.lr_schedule = "linear"
    hparams.value_min = 0.0
    hparams.value_max = 100.0
    hparams.n_step = 10
    hparams.batch_size = 128
    hparams.replay_capacity = 100_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 8
    hparams.rollout_length = 32
    hparams.updates_per_iteration = 128
    hparams.target_update_period = 128
    hparams.max_grad_norm = 10.0
    return hparams


@register
def rainbow_acrobot() -> RainbowHParams:
    """Rainbow on Acrobot-v1."""
    hparams = rainbow()
    hparams.env = "Acrobot-v1"
    hparams.train_steps = 100_000
    hparams.eval_period = 20_000
    hparams.model.hidden = (64, 64)
    hparams.lr = 2e-3
    hparams.lr_schedule = "linear"
    hparams.value_min = -100.0
    hparams.value_max = 0.0
    hparams.n_step = 5
    hparams.batch_size = 128
    hparams.replay_capacity = 50_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 8
    hparams.rollout_length = 32
    hparams.updates_per_iteration = 64
    hparams.target_update_period = 128
    hparams.max_grad_norm = 10.0
    return hparams


@register
def rainbow_mountaincar() -> RainbowHParams:
    """Rainbow on MountainCar-v0.

    `python train.py --hparams rainbow_mountaincar`: -97 after 120,000 steps (one seed; 150 s of CPU time).
    """
    hparams = rainbow()
    hparams.env = "MountainCar-v0"
    hparams.train_steps = 120_000
    hparams.eval_period = 20_000
    hparams.model.hidden = (64, 64)
    hparams.gamma = 0.98
    hparams.lr = 4e-3
    hparams.lr_schedule = "linear"
    hparams.value_min = -50.0
    hparams.value_max = 0.0
    hparams.n_step = 5
    hparams.batch_size = 128
    hparams.replay_capacity = 10_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 64
    hparams.target_update_period = 192
    hparams.max_grad_norm = 10.0
    return hparams


@register
def rainbow_lunarlander() -> RainbowHParams:
    """Rainbow on LunarLander-v3."""
    hparams = rainbow()
    hparams.env = "LunarLander-v3"
    hparams.train_steps = 100_000
    hparams.eval_period = 20_000
    hparams.model.hidden = (64, 64)
    hparams.lr = 7e-4
    hparams.lr_schedule = "linear"
    hparams.value_min = -200.0
    hparams.value_max = 300.0
    hparams.n_step = 3
    hparams.batch_size = 128
    hparams.replay_capacity = 100_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 128
    hparams.target_update_period = 500
    hparams.max_grad_norm = 10.0
    return hparams


@register
def rainbow_identity() -> RainbowHParams:
    """Rainbow on Identity-v0: the smallest test that anything is learned."""
    hparams = rainbow()
    hparams.env = "Identity-v0"
    hparams.train_steps = 4_000
    hparams.gamma = 0.0
    hparams.value_min = 0.0
    hparams.value_max = 2.0
    hparams.atoms = 11
    hparams.lr = 3e-3
    hparams.replay_capacity = 2_000
    hparams.min_replay_size = 100
    hparams.batch_size = 64
    hparams.num_envs = 8
    hparams.rollout_length = 4
    hparams.updates_per_iteration = 4
    hparams.target_update_period = 50
    hparams.log_period = 1_000
    return hparams
