"""Hyperparameters and named sets of VPG (`rl/agents/algos/vpg.py`)."""

from __future__ import annotations

from typing import ClassVar, Literal

from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class VPGHParams(HParams):
    """VPG for discrete, multi-discrete, multi-binary and continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "rollout_length": "[16,32,64,128,256,512]",
        "gae_lambda": "0.8:1.0",
        "entropy_coef": "log:1e-5:0.1",
        "value_lr": "log:1e-4:1e-2",
        "value_updates": "1:40",
    }

    anneals: ClassVar[tuple[str, ...]] = ("entropy_coef",)
    algo: str = "vpg"
    rollout_length: PositiveInt = 128
    max_grad_norm: PositiveFloat | None = 0.5

    advantage: Literal["reward_to_go", "gae"] = "gae"  # reward_to_go: no value is subtracted
    gae_lambda: Fraction = 0.97  # with advantage=gae
    entropy_coef: Coefficient = 0.0  # weight of the policy's entropy, which is added
    normalize_advantage: bool = True  # advantages of a batch get mean 0 and deviation 1
    value_updates: PositiveInt = 10  # gradient steps of the value after each one of the policy
    value_lr: PositiveFloat = 1e-3  # learning rate of the value network
    log_std_init: float = -0.5  # continuous actions: logarithm of the initial standard deviation


@register
def vpg() -> VPGHParams:
    """VPG on any environment with discrete or continuous actions: give --env ID."""
    return VPGHParams.of(
        normalize_reward=True, rollout_length=32, lr=3e-3, lr_schedule="linear", value_lr=3e-3
    )


@register
def vpg_cartpole() -> VPGHParams:
    """VPG on CartPole-v1."""
    return VPGHParams.of(
        ROLLOUT["CartPole-v1"], num_envs=16, rollout_length=64, lr=7e-3, lr_schedule="linear", value_lr=7e-3
    )


@register
def vpg_cartpole_reward_to_go() -> VPGHParams:
    """VPG on CartPole-v1 without a baseline."""
    return vpg_cartpole(advantage="reward_to_go")


@register
def vpg_acrobot() -> VPGHParams:
    """VPG on Acrobot-v1."""
    return VPGHParams.of(
        ROLLOUT["Acrobot-v1"], num_envs=16, rollout_length=64, lr=5e-3, lr_schedule="linear", value_lr=5e-3
    )


@register
def vpg_mountaincar() -> VPGHParams:
    """VPG on MountainCar-v0, shaped reward in training."""
    return VPGHParams.of(
        ROLLOUT["MountainCar-v0"],
        num_envs=16,
        rollout_length=64,
        lr=3e-3,
        lr_schedule="linear",
        value_lr=3e-3,
    )


@register
def vpg_identity() -> VPGHParams:
    """VPG on Identity-v0: the smallest test that anything is learned."""
    return VPGHParams.of(ROLLOUT["Identity-v0"], rollout_length=8, lr=1e-2, value_lr=1e-2, value_updates=2)
