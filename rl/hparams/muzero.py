"""Hyperparameters and named sets of MuZero (`rl/agents/algos/muzero.py`)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Fraction, PositiveFloat, PositiveInt, refuse_given
from rl.hparams.registry import register
from rl.hparams.sequences import UniformSequences
from rl.hparams.tasks import REPLAY
from rl.hparams.tree_search import TreeSearchHParams


class MuZeroHParams(UniformSequences, TreeSearchHParams):
    """MuZero for discrete actions: sizes of the learned model, how it is unrolled, what it is trained on."""

    searched: ClassVar[dict[str, str]] = {
        "simulations": "[8,16,32]",
        "updates_per_iteration": "[4,8,16]",
        "n_step": "[5,10,20]",
        "value_coef": "log:0.1:1.0",
    }

    algo: str = "muzero"
    memory: str = "sequence"
    gamma: Fraction = 0.997
    max_grad_norm: PositiveFloat | None = 5.0
    rollout_length: PositiveInt = 16

    search: Literal["puct", "gumbel"] = "gumbel"
    simulations: PositiveInt = 16
    replay_capacity: PositiveInt = 50_000  # steps in total
    min_replay_size: PositiveInt = 1_000  # steps before the first update
    batch_size: PositiveInt = 16  # sequences of an update, unrolled from their first `rollout_length` steps
    unroll_length: PositiveInt = 31  # steps of a sequence
    unroll_steps: PositiveInt = 5  # for which the model is unrolled from each beginning, K
    n_step: PositiveInt = 10  # rewards of a value's target, as far as the sequence goes
    updates_per_iteration: PositiveInt = 8  # gradient updates after each rollout
    state_size: PositiveInt = 64  # width of hidden states
    units: PositiveInt = 64  # of the dense layers of dynamics and prediction
    layers: PositiveInt = 1  # dense layers of both
    bins: Annotated[int, Field(ge=3)] = 51  # of predicted rewards and values
    bin_limit: PositiveFloat = 7.0  # symlog of the largest reward or value that they tell
    value_coef: Coefficient = 0.25  # weight of the value loss
    reward_coef: Coefficient = 1.0  # weight of the reward loss

    def check(self) -> None:
        """Raises UsageError where sequences do not hold what is unrolled, or were not searched in."""
        super().check()
        if self.offline:
            raise UsageError("muzero learns from searches made where it played: data hold none, leave it out")
        least = self.rollout_length + self.unroll_steps
        if self.unroll_length < least:
            raise UsageError(
                f"hparam unroll_length={self.unroll_length} is below rollout_length + unroll_steps = {least}:"
                " a sequence holds what is unrolled from each step of a rollout"
            )

    def check_training(self) -> None:
        """Raises UsageError where values of searches would stay in other units than rewards."""
        stored = "keeps the values of its searches, in which rewards must stay as they were"
        refuse_given(self, stored, "normalize_reward", "curiosity")


@register
def muzero() -> MuZeroHParams:
    """MuZero, with Gumbel search, on any environment with discrete actions: give --env ID."""
    model = dict(hidden=(64,), layer_norm=True, activation="relu")
    return MuZeroHParams.of(lr=1e-3, num_envs=16, model=model)


@register
def muzero_cartpole() -> MuZeroHParams:
    """MuZero, with Gumbel search and 20-step returns, on CartPole-v1."""
    return muzero(
        REPLAY["CartPole-v1"],
        train_steps=150_016,
        eval_period=25_600,
        replay_capacity=20_000,  # values of old searches hold back those that are learned
        gamma=0.99,
        n_step=20,
        unroll_length=40,
        updates_per_iteration=16,
        least_value_range=1.0,  # far from a fall, moves differ by noise alone
        lr_schedule="linear",
    )


@register
def muzero_identity() -> MuZeroHParams:
    """MuZero, 1-step returns, on Identity-v0: the smallest test that anything is learned."""
    return muzero(
        REPLAY["Identity-v0"],
        simulations=4,
        unroll_length=6,
        unroll_steps=2,
        n_step=1,
        replay_capacity=2_000,
        updates_per_iteration=16,
        state_size=32,
        units=32,
        bins=21,
        bin_limit=2.0,
        lr=5e-3,
        model=dict(hidden=(16,)),
    )
