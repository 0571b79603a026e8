"""Hyperparameters and named sets of APPO (`rl/agents/algos/appo.py`)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rl.hparams.hparams import PositiveFloat, PositiveInt
from rl.hparams.impala import IMPALAHParams
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class APPOHParams(IMPALAHParams):
    """APPO for discrete, multi-discrete, multi-binary and continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "clip_range": "0.1:0.4",
        "target_update_period": "log:1:64",
    }

    anneals: ClassVar[tuple[str, ...]] = ("clip_range", "entropy_coef")
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
    return APPOHParams.of(
        normalize_reward=True,
        lr=1e-3,
        lr_schedule="linear",
        epochs=8,
        value_coef=1.0,  # of half the square
        trace_lambda=0.95,
    )


@register
def appo_cartpole() -> APPOHParams:
    """APPO on CartPole-v1."""
    return APPOHParams.of(
        ROLLOUT["CartPole-v1"],
        normalize_reward=True,
        train_steps=300_000,
        num_envs=16,
        rollout_length=32,
        minibatches=2,
        lr=2e-3,
        lr_schedule="linear",
        trace_lambda=0.95,
    )


@register
def appo_acrobot() -> APPOHParams:
    """APPO on Acrobot-v1."""
    return APPOHParams.of(
        ROLLOUT["Acrobot-v1"],
        num_envs=16,
        rollout_length=64,
        minibatches=4,
        lr=1e-3,
        lr_schedule="linear",
        trace_lambda=0.95,
    )


@register
def appo_pendulum() -> APPOHParams:
    """APPO on Pendulum-v1."""
    return APPOHParams.of(
        ROLLOUT["Pendulum-v1"],
        num_envs=16,
        rollout_length=128,
        minibatches=4,
        lr=1e-3,
        lr_schedule="linear",
        trace_lambda=0.95,
        log_std_init=0.5,
    )


@register
def appo_identity() -> APPOHParams:
    """APPO on Identity-v0: the smallest test that anything is learned."""
    return APPOHParams.of(
        ROLLOUT["Identity-v0"],
        rollout_length=16,
        lr=1e-2,
        lr_schedule="linear",
        minibatches=2,
        target_update_period=2,
    )
