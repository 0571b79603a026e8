"""Hyperparameters and named sets of APPO (`rl/agents/algos/appo.py`)."""

from __future__ import annotations

from pydantic import Field

from rl.hparams.hparams import PositiveFloat, PositiveInt
from rl.hparams.impala import IMPALAHParams
from rl.hparams.registry import register


class APPOHParams(IMPALAHParams):
    """APPO for discrete, multi-discrete, multi-binary and continuous actions."""

    algo: str = "appo"
    rollout_length: PositiveInt = 32

    epochs: PositiveInt = 4  # passes over each rollout
    clip_range: PositiveFloat = 0.2  # of the policy's ratio to the target policy around 1
    behaviour_ratio_clip: PositiveFloat = 2.0  # largest ratio of the policy that acted to the target policy
    normalize_advantage: bool = True  # advantages of a batch get mean 0 and deviation 1
    target_update_period: PositiveInt = 8  # gradient updates between two updates of the target network
    tau: float = Field(default=1.0, gt=0, le=1)  # target <- tau * online + (1 - tau) * target; 1: copy


@register
def appo() -> APPOHParams:
    """APPO on any environment with discrete or continuous actions: give --env ID."""
    hparams = APPOHParams()
    hparams.normalize_reward = True
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.epochs = 8
    hparams.value_coef = 1.0  # of half the square
    hparams.trace_lambda = 0.95
    return hparams


@register
def appo_cartpole() -> APPOHParams:
    """APPO on CartPole-v1."""
    hparams = APPOHParams()
    hparams.env = "CartPole-v1"
    hparams.normalize_reward = True
    hparams.train_steps = 300_000
    hparams.eval_period = 50_000
    hparams.num_envs = 16
    hparams.rollout_length = 32
    hparams.minibatches = 2
    hparams.lr = 2e-3
    hparams.lr_schedule = "linear"
    hparams.trace_lambda = 0.95
    return hparams


@register
def appo_acrobot() -> APPOHParams:
    """APPO on Acrobot-v1."""
    hparams = APPOHParams()
    hparams.env = "Acrobot-v1"
    hparams.normalize_observation = True
    hparams.train_steps = 500_000
    hparams.eval_period = 50_000
    hparams.num_envs = 16
    hparams.rollout_length = 64
    hparams.minibatches = 4
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.trace_lambda = 0.95
    return hparams


@register
def appo_pendulum() -> APPOHParams:
    """APPO on Pendulum-v1."""
    hparams = APPOHParams()
    hparams.env = "Pendulum-v1"
    hparams.normalize_reward = True
    hparams.train_steps = 1_000_000
    hparams.eval_period = 100_000
    hparams.num_envs = 16
    hparams.rollout_length = 128
    hparams.gamma = 0.95
    hparams.minibatches = 4
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.trace_lambda = 0.95
    hparams.log_std_init = 0.5
    return hparams


@register
def appo_identity() -> APPOHParams:
    """APPO on Identity-v0: the smallest test that anything is learned."""
    hparams = APPOHParams()
    hparams.env = "Identity-v0"
    hparams.train_steps = 8_192
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.gamma = 0.0
    hparams.lr = 1e-2
    hparams.lr_schedule = "linear"
    hparams.minibatches = 2
    hparams.target_update_period = 2
    hparams.log_period = 1_000
    return hparams
