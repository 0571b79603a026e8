"""Hyperparameters and named sets of V-MPO (`rl/agents/algos/vmpo.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.hparams import Coefficient, PositiveFloat, PositiveInt
from rl.hparams.impala import IMPALAHParams
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class VMPOHParams(IMPALAHParams):
    """V-MPO for discrete, multi-discrete, multi-binary and continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "rollout_length": "[16,32,64,128]",
        "epochs": "1:16",
        "weights_kl": "log:0.01:0.5",
        "max_kl": "log:1e-3:0.1",
    }

    algo: str = "vmpo"
    rollout_length: PositiveInt = 32

    epochs: PositiveInt = 8  # passes over each rollout
    value_coef: Coefficient = 1.0  # weight of the value loss, half the mean square
    temperature: PositiveFloat = 1.0  # initial one; steps are weighted by exp(advantage / temperature)
    weights_kl: PositiveFloat = 0.1  # nats: limit of the weights' divergence from equal ones (epsilon_eta)
    penalty: PositiveFloat = 1.0  # initial weight of the divergence from the policy that acted
    max_kl: PositiveFloat = 0.01  # nats: limit of that divergence; continuous actions: by the mean alone
    max_std_kl: PositiveFloat = 1e-4  # continuous actions: nats, by the standard deviation alone
    dual_lr: PositiveFloat = 0.01  # learning rate of the logarithms of temperature and penalties


@register
def vmpo() -> VMPOHParams:
    """V-MPO on any environment with discrete or continuous actions: give --env ID."""
    return VMPOHParams.of(normalize_reward=True, lr=1e-3, lr_schedule="linear", trace_lambda=0.95)


@register
def vmpo_cartpole() -> VMPOHParams:
    """V-MPO on CartPole-v1."""
    return VMPOHParams.of(
        ROLLOUT["CartPole-v1"],
        normalize_reward=True,
        num_envs=16,
        rollout_length=32,
        lr=1e-3,
        lr_schedule="linear",
        trace_lambda=0.95,
    )


@register
def vmpo_pendulum() -> VMPOHParams:
    """V-MPO on Pendulum-v1."""
    return VMPOHParams.of(
        ROLLOUT["Pendulum-v1"],
        normalize_reward=True,
        num_envs=16,
        rollout_length=128,
        minibatches=4,
        lr=1e-3,
        lr_schedule="linear",
        trace_lambda=0.95,
        max_kl=0.005,
    )


@register
def vmpo_identity() -> VMPOHParams:
    """V-MPO on Identity-v0: the smallest test that anything is learned."""
    return VMPOHParams.of(
        ROLLOUT["Identity-v0"], rollout_length=16, lr=1e-2, lr_schedule="linear", minibatches=2, max_kl=0.1
    )
