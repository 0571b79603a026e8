"""Hyperparameters and named sets of DT (`rl/agents/algos/dt.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.errors import UsageError
from rl.hparams.bc import CloningHParams
from rl.hparams.hparams import PositiveFloat, PositiveInt, refuse_given
from rl.hparams.registry import register
from rl.hparams.tasks import OFFLINE


class DTHParams(CloningHParams):
    """The decision transformer for discrete actions and those of a bounded Box."""

    searched: ClassVar[dict[str, str]] = {
        "gamma": "",
        "batch_size": "[32,64,128]",
        "context_length": "[5,10,20]",
        "layers": "[1,2,3]",
    }
    unroll_length: ClassVar[int] = 1  # the memory's: each step of the data ends a sequence

    algo: str = "dt"
    previous_action_reward: bool = True  # needed: the return that is still wanted falls by each reward
    max_grad_norm: PositiveFloat | None = 0.25

    target_return: float | None = None  # the undiscounted return that the policy is asked for; it is needed
    return_scale: PositiveFloat = 1.0  # divides returns-to-go: about the largest one in the data
    context_length: PositiveInt = 20  # K: steps that the transformer sees, three tokens each
    layers: PositiveInt = 2  # of the transformer
    heads: PositiveInt = 1  # of each layer's attention
    embedding: PositiveInt = 64  # width of a token, a multiple of heads
    max_timestep: PositiveInt = 1000  # steps of an episode that are told apart; later ones count as the last
    batch_size: PositiveInt = 64  # windows of context_length steps in an update

    @property
    def burn_in(self) -> int:
        """Returns the memory's steps before each last one of a window."""
        return self.context_length - 1

    def check(self) -> None:
        """Raises UsageError where there is no return to ask for, or what it is reckoned by is left out."""
        super().check()
        if not self.offline:
            raise UsageError(f"memory={self.memory}: dt learns from episodes of data, take memory=dataset")
        if not self.previous_action_reward:
            raise UsageError("previous_action_reward=false: dt has to be told its rewards, leave it out")
        if self.target_return is None:
            raise UsageError(
                "dt asks for a return, and the hparams name none: give --hparam_override target_return=R, "
                "such as the best one of the data (python -m rl.data DIR shows it)"
            )
        if self.embedding % self.heads:
            raise UsageError(
                f"hparam embedding={self.embedding}: each of the {self.heads} heads has an equal part of it"
            )

    def check_training(self) -> None:
        """Raises UsageError where rewards would be others than those that are taken off the target."""
        given = "normalize_reward", "return_span"
        refuse_given(self, "counts rewards in the environment's own units (return_scale scales)", *given)


NETWORK: dict[str, Any] = dict(model=dict(hidden=(), activation="relu", init="torch"))


@register
def dt() -> DTHParams:
    """DT from any data: give --hparam_override data=DIR,target_return=R,return_scale=R."""
    return DTHParams.of(NETWORK, train_steps=20_000, lr_schedule="linear")


@register
def dt_cartpole() -> DTHParams:
    """DT from data of CartPole-v1, asked for a return of 500."""
    # Few episodes of medium-replay have late steps: with an embedding for each, windows of five steps
    # returned 431 and 206 on seeds 0 and 1, without 477 and 500.
    sizes: dict[str, Any] = dict(context_length=10, max_timestep=1)
    return dt(
        OFFLINE["CartPole-v1"], sizes, train_steps=2_000, eval_period=1_000, log_period=500,
        target_return=500.0, return_scale=500.0,
    )  # fmt: skip


@register
def dt_identity() -> DTHParams:
    """DT from data of Identity-v0, asked for a return of 20: the smallest test that anything is learned."""
    small = dict(context_length=3, layers=1, embedding=32, max_timestep=20, batch_size=64)
    return dt(OFFLINE["Identity-v0"], small, target_return=20.0, return_scale=20.0, lr=3e-3)
