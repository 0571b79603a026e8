"""Hyperparameters and named sets of RSAC (`rl/agents/algos/rsac.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.ddpg import one_update_per_step, small_networks
from rl.hparams.hparams import Count, Fraction, PositiveInt
from rl.hparams.registry import register
from rl.hparams.sac import SACHParams
from rl.hparams.sequences import check_every_step_is_replayed
from rl.hparams.tasks import CONTINUOUS, REPLAY


class RSACHParams(SACHParams):
    """RSAC: SAC's hyperparameters where `batch_size` counts sequences, and those of sequences."""

    searched: ClassVar[dict[str, str]] = {
        "batch_size": "[8,16,32,64]",
        "unroll_length": "[16,32,64]",
    }

    algo: str = "rsac"
    memory: str = "sequence"

    batch_size: PositiveInt = 32  # sequences
    priority_exponent: Fraction = 0.9
    importance_sampling_exponent: Fraction = 0.0
    importance_sampling_exponent_end: Fraction = 0.0
    priority_eta: Fraction = 0.9  # weight of a sequence's largest error beside its mean one
    burn_in: Count = 16  # steps of a sequence that only bring the states up to date
    unroll_length: PositiveInt = 32  # steps of a sequence that are learned from

    def check(self) -> None:
        """Raises UsageError where sequences and rollouts do not fit together."""
        super().check()
        check_every_step_is_replayed(self)


@register
def rsac() -> RSACHParams:
    """RSAC with an LSTM on any environment with bounded continuous actions: give --env ID."""
    return RSACHParams.of(
        small_networks(256),
        one_update_per_step(8, 8),
        previous_action_reward=True,
        updates_per_iteration=16,
        model=dict(name="lstm", recurrent_units=128),
    )


@register
def rsac_pendulum_no_velocity() -> RSACHParams:
    """RSAC with an LSTM on Pendulum-v1 without velocities, told the last action and reward."""
    return rsac(
        env="PendulumNoVel-v1",
        train_steps=50_000,
        eval_period=5_000,
        log_period=2_500,
        lr=1e-3,
        tau=0.02,
        gamma=0.95,
        num_envs=8,
        rollout_length=16,
        updates_per_iteration=32,
        batch_size=16,
        burn_in=8,
        unroll_length=16,
        model=dict(hidden=(64,), recurrent_units=64),
    )


@register
def rsac_identity() -> RSACHParams:
    """RSAC with an LSTM on Identity-v0, continuous: the smallest test that anything is learned."""
    return rsac(
        REPLAY["Identity-v0"],
        CONTINUOUS,
        lr=3e-3,
        temperature=0.1,
        replay_capacity=4_000,
        random_steps=200,
        updates_per_iteration=8,
        burn_in=2,
        unroll_length=4,
        model=dict(hidden=(32,), recurrent_units=32),
    )
