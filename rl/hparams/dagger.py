"""Hyperparameters and named sets of DAgger (`rl/agents/algos/dagger.py`)."""

from __future__ import annotations

from typing import ClassVar, Literal

from rl.errors import UsageError
from rl.hparams.bc import CloningHParams
from rl.hparams.ddpg import small_networks
from rl.hparams.hparams import Fraction, PositiveInt, refuse_given
from rl.hparams.registry import register
from rl.hparams.replayed import check_sizes
from rl.hparams.tasks import REPLAY


class DAggerHParams(CloningHParams):
    """DAgger for actions of any kind."""

    algo: str = "dagger"
    taught: ClassVar[bool] = True
    memory: str = "uniform"
    act_select: str = "greedy"

    expert: str = ""  # folder or address of the trained run whose best policy says what is right
    beta: Fraction = 0.0  # in the i-th rollout the expert acts in beta^(i - 1) of the steps; 0: in the first
    replay_capacity: PositiveInt = 200_000  # observations that are kept, the newest; train_steps: all
    min_replay_size: PositiveInt = 256  # observations before the first update
    n_step: Literal[1] = 1  # each observation has an action of its own

    def check(self) -> None:
        """Raises UsageError where nothing would be played, or learning would never start."""
        super().check()
        if self.offline:
            raise UsageError("memory=dataset: dagger plays, and asks about what it meets: take bc")
        check_sizes(self)

    def check_training(self) -> None:
        """Raises UsageError where rewards are to be changed that nobody looks at."""
        refuse_given(self, "does not look at rewards", "normalize_reward", "reward_augmentation")


@register
def dagger() -> DAggerHParams:
    """DAgger on any environment that a run has been trained on: give --env ID and expert=RUN."""
    return DAggerHParams.of(
        small_networks(256, 256),
        train_steps=50_000,
        num_envs=8,
        rollout_length=64,
        updates_per_iteration=100,
        lr_schedule="linear",
    )


@register
def dagger_cartpole() -> DAggerHParams:
    """DAgger on CartPole-v1: give expert=RUN."""
    return dagger(REPLAY["CartPole-v1"], small_networks(64, 64), train_steps=20_480, eval_period=5_000)


@register
def dagger_pendulum() -> DAggerHParams:
    """DAgger on Pendulum-v1: give expert=RUN."""
    return dagger(REPLAY["Pendulum-v1"], small_networks(64, 64), train_steps=20_480, eval_period=5_000)


@register
def dagger_hopper() -> DAggerHParams:
    """DAgger on Hopper-v5: give expert=RUN; not measured here."""
    return dagger(REPLAY["Hopper-v5"], train_steps=102_400, eval_period=20_000)


@register
def dagger_identity() -> DAggerHParams:
    """DAgger on Identity-v0: the smallest test that anything is learned."""
    return dagger(
        REPLAY["Identity-v0"],  # whose rollouts have 4 steps
        small_networks(32, 32),
        train_steps=1_280,
        log_period=256,
        lr=3e-3,
        batch_size=64,
        min_replay_size=32,
        updates_per_iteration=20,
    )
