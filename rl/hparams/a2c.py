"""Hyperparameters and named sets of A2C (`rl/agents/algos/a2c.py`)."""

from __future__ import annotations

from typing import ClassVar, Literal

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class A2CHParams(HParams):
    """A2C for discrete, multi-discrete, multi-binary and continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "rollout_length": "[4,8,16,32,64,128]",
        "entropy_coef": "log:1e-5:0.1",
        "gae_lambda": "0.8:1.0",
        "max_grad_norm": "log:0.3:5.0",
        "normalize_advantage": "[true,false]",
    }

    anneals: ClassVar[tuple[str, ...]] = ("entropy_coef",)
    algo: str = "a2c"
    rollout_length: PositiveInt = 5
    optimizer: Literal["adam", "adamw", "rmsprop", "sgd"] = "rmsprop"
    lr: PositiveFloat = 7e-4
    max_grad_norm: PositiveFloat | None = 0.5

    entropy_coef: Coefficient = 0.0  # weight of the policy's entropy, which is added
    value_coef: Coefficient = 0.5  # weight of the value loss, half the mean square
    gae_lambda: Fraction = 1.0  # 1: n-step returns, n what is left of the rollout
    normalize_advantage: bool = False  # advantages of a batch get mean 0 and deviation 1
    log_std_init: float = 0.0  # continuous actions: logarithm of the initial standard deviation

    def check(self) -> None:
        """Raises UsageError unless the environments split into equal microbatches."""
        super().check()
        if self.grad_comp == "accumulate" and self.num_envs % self.microbatches:
            raise UsageError(
                f"hparam microbatches={self.microbatches} does not divide num_envs={self.num_envs}: "
                "change one of the two"
            )


@register
def a2c() -> A2CHParams:
    """A2C on any environment with discrete or continuous actions: give --env ID."""
    return A2CHParams.of(
        normalize_reward=True,
        optimizer="adam",
        lr=1e-3,
        lr_schedule="linear",
        value_coef=1.0,  # of half the square
        gae_lambda=0.95,
    )


@register
def a2c_cartpole() -> A2CHParams:
    """A2C on CartPole-v1."""
    return A2CHParams.of(
        ROLLOUT["CartPole-v1"],
        normalize_reward=True,
        num_envs=16,
        rollout_length=16,
        optimizer="adam",
        lr=1e-3,
        lr_schedule="linear",
        gae_lambda=0.95,
        entropy_coef=0.01,
        normalize_advantage=True,
        sync_workers=True,  # with workers it is A2C still, the synchronous one
    )


@register
def a2c_pendulum() -> A2CHParams:
    """A2C on Pendulum-v1."""
    return A2CHParams.of(
        ROLLOUT["Pendulum-v1"],
        num_envs=8,
        rollout_length=32,
        optimizer="adam",
        lr=2e-3,
        lr_schedule="linear",
        gae_lambda=0.9,
        normalize_advantage=True,
        log_std_init=1.0,
    )


@register
def a2c_acrobot() -> A2CHParams:
    """A2C on Acrobot-v1."""
    return A2CHParams.of(
        ROLLOUT["Acrobot-v1"],
        num_envs=32,
        rollout_length=16,
        optimizer="adam",
        lr=4e-3,  # higher rates, or fewer environments, never solve it with some seeds
        lr_schedule="linear",
        gae_lambda=0.95,
        normalize_advantage=True,
    )


@register
def a2c_cartpole_no_velocity() -> A2CHParams:
    """Recurrent A2C on CartPole without velocities: what is not seen has to be remembered."""
    return a2c_cartpole(
        ROLLOUT["CartPoleNoVel-v1"],
        lr=3e-3,
        entropy_coef=0.0,
        rollout_length=32,
        model=dict(name="lstm", hidden=(64,)),
    )


@register
def a2c_identity() -> A2CHParams:
    """A2C on Identity-v0: the smallest test that anything is learned."""
    return A2CHParams.of(ROLLOUT["Identity-v0"], rollout_length=8, optimizer="adam", lr=1e-2)
