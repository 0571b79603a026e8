"""Hyperparameters and named sets of IMPALA (`rl/agents/algos/impala.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class IMPALAHParams(HParams):
    """IMPALA for discrete, multi-discrete, multi-binary and continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "rollout_length": "[8,16,32,64,128]",
        "epochs": "1:8",
        "entropy_coef": "log:1e-5:0.1",
        "trace_lambda": "0.8:1.0",
    }

    anneals: ClassVar[tuple[str, ...]] = ("entropy_coef",)
    algo: str = "impala"
    rollout_length: PositiveInt = 20
    max_grad_norm: PositiveFloat | None = 0.5

    epochs: PositiveInt = 2  # passes over each rollout
    minibatches: PositiveInt = 1  # per epoch: groups of environments
    entropy_coef: Coefficient = 0.0  # weight of the policy's entropy, which is added
    value_coef: Coefficient = 0.5  # weight of the value loss, half the mean square
    trace_lambda: Fraction = 1.0  # weight of the trace, as gae_lambda
    rho_clip: PositiveFloat = 1.0  # largest importance ratio in temporal differences
    trace_clip: PositiveFloat = 1.0  # largest importance ratio in the trace
    advantage_rho_clip: PositiveFloat = 1.0  # largest importance ratio of the policy gradient
    log_std_init: float = 0.0  # continuous actions: logarithm of the initial standard deviation

    def check(self) -> None:
        """Raises UsageError unless the environments split into minibatches, and these into microbatches."""
        super().check()
        parts = self.minibatches * (self.microbatches if self.grad_comp == "accumulate" else 1)
        if self.num_envs % parts:
            raise UsageError(
                f"hparam minibatches={self.minibatches} (times microbatches, with grad_comp=accumulate) does "
                f"not divide num_envs={self.num_envs}: minibatches are groups of environments"
            )


@register
def impala() -> IMPALAHParams:
    """IMPALA on any environment with discrete or continuous actions: give --env ID."""
    return IMPALAHParams.of(
        normalize_reward=True,
        rollout_length=32,
        lr=1e-3,
        lr_schedule="linear",
        epochs=8,
        value_coef=1.0,  # of half the square
        # Without it CliffWalking ends up standing still. Continuous actions would rather have 0.
        entropy_coef=0.01,
        trace_lambda=0.95,
    )


@register
def impala_cartpole() -> IMPALAHParams:
    """IMPALA on CartPole-v1."""
    return IMPALAHParams.of(
        ROLLOUT["CartPole-v1"],
        normalize_reward=True,
        num_envs=16,
        rollout_length=32,
        lr=2e-3,
        lr_schedule="linear",
        trace_lambda=0.95,
        entropy_coef=0.01,
    )


@register
def impala_acrobot() -> IMPALAHParams:
    """IMPALA on Acrobot-v1."""
    return IMPALAHParams.of(
        ROLLOUT["Acrobot-v1"],
        normalize_reward=True,
        num_envs=16,
        rollout_length=32,
        lr=3e-3,
        lr_schedule="linear",
        trace_lambda=0.95,
        entropy_coef=0.01,
    )


@register
def impala_cartpole_no_velocity() -> IMPALAHParams:
    """Recurrent IMPALA on CartPole without velocities: what is not seen has to be remembered."""
    return impala_cartpole(ROLLOUT["CartPoleNoVel-v1"], lr=3e-3, model=dict(name="lstm", hidden=(64,)))


@register
def impala_identity() -> IMPALAHParams:
    """IMPALA on Identity-v0: the smallest test that anything is learned."""
    return IMPALAHParams.of(
        ROLLOUT["Identity-v0"], rollout_length=16, lr=1e-2, lr_schedule="linear", minibatches=2
    )
