"""Hyperparameters and named sets of TRPO (`rl/agents/algos/trpo.py`)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class TRPOHParams(HParams):
    """TRPO for discrete, multi-discrete, multi-binary and continuous actions. `lr` is the value's."""

    searched: ClassVar[dict[str, str]] = {
        "rollout_length": "[32,64,128,256,512]",
        "max_kl": "log:1e-3:0.1",
        "epochs": "[5,10,20,30]",
        "minibatches": "[1,2,4,8,16]",
        "gae_lambda": "0.8:1.0",
        "entropy_coef": "log:1e-5:0.1",
    }

    anneals: ClassVar[tuple[str, ...]] = ("entropy_coef",)
    algo: str = "trpo"
    rollout_length: PositiveInt = 128
    lr: PositiveFloat = 1e-3

    max_kl: PositiveFloat = 0.01  # mean KL divergence, in nats, of the policies before and after a step
    cg_steps: PositiveInt = 15  # of conjugate gradients, for the natural gradient
    cg_damping: Coefficient = 0.1  # times the identity, added to the Fisher matrix
    line_search_steps: PositiveInt = 10  # lengths of a step that are tried
    # Each of them, as a part of the one before.
    line_search_shrink: Annotated[float, Field(gt=0, lt=1)] = 0.8
    epochs: PositiveInt = 10  # passes of the value over each rollout
    minibatches: PositiveInt = 4  # per epoch
    gae_lambda: Fraction = 0.95  # generalised advantage estimation's lambda (Schulman et al. 2016)
    entropy_coef: Coefficient = 0.0  # weight of the policy's entropy, which is added
    normalize_advantage: bool = True  # advantages of a rollout get mean 0 and deviation 1
    log_std_init: float = 0.0  # continuous actions: logarithm of the initial standard deviation

    def check(self) -> None:
        """Raises UsageError where the policy's step is to be made in parts."""
        super().check()
        if self.grad_comp == "accumulate":
            raise UsageError(
                "grad_comp=accumulate: trpo's step is by the Fisher matrix of a rollout as a whole, take "
                "grad_comp=backprop"
            )


@register
def trpo() -> TRPOHParams:
    """TRPO on any environment with discrete or continuous actions: give --env ID."""
    return TRPOHParams.of(normalize_reward=True, rollout_length=128)


@register
def trpo_cartpole() -> TRPOHParams:
    """TRPO on CartPole-v1."""
    return TRPOHParams.of(
        ROLLOUT["CartPole-v1"],
        train_steps=99_328,
        eval_period=25_000,
        num_envs=8,
        rollout_length=128,
        epochs=20,
        minibatches=8,
    )


@register
def trpo_pendulum() -> TRPOHParams:
    """TRPO on Pendulum-v1."""
    return TRPOHParams.of(
        ROLLOUT["Pendulum-v1"],
        train_steps=98_304,
        eval_period=50_000,
        num_envs=8,
        rollout_length=512,  # few steps of the policy, each from enough episodes to be right
        max_kl=0.03,
        epochs=20,
        minibatches=32,
    )


@register
def trpo_identity() -> TRPOHParams:
    """TRPO on Identity-v0: the smallest test that anything is learned."""
    return TRPOHParams.of(ROLLOUT["Identity-v0"], rollout_length=16, lr=1e-2, epochs=2, max_kl=0.05)
