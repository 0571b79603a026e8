"""Hyperparameters and named sets of R2D2 (`rl/agents/algos/r2d2.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.dqn import DQNHParams
from rl.hparams.hparams import Coefficient, Count, Fraction, PositiveInt
from rl.hparams.registry import register
from rl.hparams.sequences import check_every_step_is_replayed
from rl.hparams.tasks import REPLAY


class R2D2HParams(DQNHParams):
    """R2D2: DQN's hyperparameters where `batch_size` counts sequences, and those of sequences."""

    searched: ClassVar[dict[str, str]] = {
        "batch_size": "[8,16,32,64]",
        "unroll_length": "[20,40,80]",
    }

    algo: str = "r2d2"
    memory: str = "sequence"
    gamma: Fraction = 0.997

    double: bool = True
    batch_size: PositiveInt = 32  # sequences
    n_step: PositiveInt = 5
    prioritized: bool = True  # false: sequences are sampled uniformly
    priority_exponent: Fraction = 0.9
    importance_sampling_exponent: Fraction = 0.0  # the paper found no benefit in the weights
    importance_sampling_exponent_end: Fraction = 0.0
    priority_eta: Fraction = 0.9  # weight of a sequence's largest error beside its mean one
    burn_in: Count = 40  # steps of a sequence that only bring the state up to date
    unroll_length: PositiveInt = 80  # steps of a sequence that are learned from
    value_rescaling: bool = True  # values on a squashed scale (Pohlen et al. 2018)
    value_rescaling_epsilon: Coefficient = 1e-3  # slope of the rescaling's linear part
    retrace_lambda: Fraction | None = None  # Retrace(lambda) targets; None: n_step ones

    @property
    def memory_name(self) -> str:
        """Returns `memory`: `prioritized` is a switch of the memory of sequences, not another memory."""
        return self.memory

    def check(self) -> None:
        """Raises UsageError where sequences and rollouts do not fit together."""
        super().check()
        check_every_step_is_replayed(self)


RECURRENT = dict(dueling=True, model=dict(name="lstm", activation="relu", init="lecun_uniform"))
SHORT_SEQUENCES = dict(
    RECURRENT,
    gamma=0.99,
    lr=1e-3,
    lr_schedule="linear",
    burn_in=8,
    unroll_length=16,
    num_envs=16,
    rollout_length=16,
    updates_per_iteration=16,
    target_update_period=100,
    max_grad_norm=10.0,
)


@register
def r2d2() -> R2D2HParams:
    """R2D2, dueling, with an LSTM, on any environment with discrete actions: give --env ID."""
    return R2D2HParams.of(SHORT_SEQUENCES)


@register
def r2d2_cartpole() -> R2D2HParams:
    """R2D2, dueling, with an LSTM and 10-step returns, on CartPole-v1."""
    return R2D2HParams.of(
        REPLAY["CartPole-v1"],
        SHORT_SEQUENCES,
        train_steps=150_000,
        eval_period=30_000,
        n_step=10,
        batch_size=32,
        replay_capacity=100_000,
        min_replay_size=1_000,
        exploration_steps=10_000,
        exploration_epsilon_end=0.04,
        model=dict(hidden=(64,), recurrent_units=64),
    )


@register
def r2d2_cartpole_no_velocity() -> R2D2HParams:
    """R2D2, dueling, LSTM, 10-step returns, on CartPoleNoVel-v1: velocities have to be remembered."""
    return r2d2_cartpole(env="CartPoleNoVel-v1", exploration_steps=15_000)


@register
def r2d2_identity() -> R2D2HParams:
    """R2D2, dueling, LSTM, 1-step returns, on Identity-v0: the smallest test that anything is learned."""
    return R2D2HParams.of(
        REPLAY["Identity-v0"],
        RECURRENT,
        n_step=1,
        burn_in=2,
        unroll_length=4,
        replay_capacity=2_000,
        batch_size=32,
        updates_per_iteration=4,
        target_update_period=50,
        exploration_steps=2_000,
        model=dict(hidden=(32,), recurrent_units=32),
    )
