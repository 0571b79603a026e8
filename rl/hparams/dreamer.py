"""Hyperparameters and named sets of DreamerV3 (`rl/agents/algos/dreamer.py`)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt, refuse_curiosity
from rl.hparams.registry import register
from rl.hparams.sequences import UniformSequences, check_every_step_is_replayed
from rl.hparams.tasks import REPLAY


class DreamerHParams(UniformSequences, HParams):
    """DreamerV3: sizes of the world model, what it is trained on, and how the actor learns within it."""

    searched: ClassVar[dict[str, str]] = {
        "updates_per_iteration": "[4,8,16]",
        "deter": "[128,256,512]",
        "groups": "[8,16,32]",
        "entropy_coef": "log:1e-4:1e-2",
    }

    algo: str = "dreamer"
    memory: str = "sequence"
    gamma: Fraction = 1.0 - 1.0 / 333.0
    max_grad_norm: PositiveFloat | None = 100.0

    replay_capacity: PositiveInt = 100_000  # steps in total
    min_replay_size: PositiveInt = 1_000  # steps before the first update
    batch_size: PositiveInt = 16  # sequences of an update
    unroll_length: PositiveInt = 16  # steps of a sequence
    updates_per_iteration: PositiveInt = 8  # gradient updates after each rollout
    deter: PositiveInt = 128  # width of the state that the gated unit carries
    groups: PositiveInt = 8  # categorical variables of the stochastic state
    classes: Annotated[int, Field(ge=2)] = 8  # of each of them
    units: PositiveInt = 128  # of the dense layers of model and heads
    layers: PositiveInt = 1  # dense layers of every head
    bins: Annotated[int, Field(ge=3)] = 255  # of predicted rewards and values
    bin_limit: PositiveFloat = 20.0  # symlog of the largest reward or value that they tell
    dynamics_coef: Coefficient = 1.0  # weight of the KL by which the prior learns
    representation_coef: Coefficient = 0.1  # weight of the KL by which the posterior does
    free_nats: Coefficient = 1.0  # free nats: smaller KL divergences give no gradient
    horizon: PositiveInt = 15  # imagined steps from every replayed state
    gae_lambda: Fraction = 0.95  # of the imagined returns
    replay_critic_coef: Coefficient = 0.3  # weight of the critic's loss at replayed steps
    entropy_coef: Coefficient = 3e-4  # weight of the actor's entropy beside normalised returns
    return_tau: Fraction = 0.01  # by which the range of returns follows an update's
    slow_critic_tau: Fraction = 0.02  # by which the slow critic follows, of which the critic stays near

    def check(self) -> None:
        """Raises UsageError where sequences and rollouts do not fit together."""
        super().check()
        check_every_step_is_replayed(self)

    def check_training(self) -> None:
        """Raises UsageError where rewards are for what is new."""
        refuse_curiosity(self)


SMALL: dict[str, Any] = dict(
    lr=1e-3,
    num_envs=8,
    rollout_length=16,
    model=dict(hidden=(128,), activation="silu", layer_norm=True),
)


@register
def dreamer() -> DreamerHParams:
    """DreamerV3 on any environment with discrete or bounded continuous actions: give --env ID."""
    return DreamerHParams.of(SMALL)


@register
def dreamer_cartpole() -> DreamerHParams:
    """DreamerV3 on CartPole-v1."""
    # Where states are told less finely, carts drift to the edge unseen: with 8 groups, in the observation's
    # own units, five seeds returned 331 on average; without what the critic learns at replayed steps, 382.
    # The bins reach to a value of 3,000.
    return dreamer(
        REPLAY["CartPole-v1"],
        normalize_observation=True,
        groups=32,
        bins=65,
        bin_limit=8.0,
        lr_schedule="linear",
    )


@register
def dreamer_pendulum() -> DreamerHParams:
    """DreamerV3 on Pendulum-v1."""
    return dreamer(REPLAY["Pendulum-v1"], train_steps=50_000, eval_period=10_000)


@register
def dreamer_breakout_minatar() -> DreamerHParams:
    """DreamerV3 on MinAtar's Breakout, or on the game given by --env."""
    return dreamer(
        env="MinAtar/Breakout-v1", train_steps=200_000, eval_period=50_000, log_period=10_000, deter=256
    )


@register
def dreamer_identity() -> DreamerHParams:
    """DreamerV3 on Identity-v0: the smallest test that anything is learned.

    What is shown is one of four, ln 4 = 1.4 nats: with less for nothing, to forget a tenth of it costs less.
    """
    return dreamer(
        REPLAY["Identity-v0"],
        free_nats=2.0,
        unroll_length=4,
        updates_per_iteration=16,
        replay_capacity=2_000,
        deter=32,
        groups=4,
        classes=4,
        units=32,
        bins=41,
        horizon=3,
        lr=3e-3,
        model=dict(hidden=(32,)),
    )
