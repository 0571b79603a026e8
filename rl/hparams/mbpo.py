"""Hyperparameters and named sets of MBPO (`rl/agents/algos/mbpo.py`)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from rl.errors import UsageError
from rl.hparams.ddpg import IDENTITY, small_networks
from rl.hparams.hparams import Count, Fraction, PositiveFloat, PositiveInt, refuse_curiosity
from rl.hparams.registry import register
from rl.hparams.sac import SACHParams
from rl.hparams.tasks import CONTINUOUS, REPLAY


class MBPOHParams(SACHParams):
    """SAC in learned dynamics: the ensemble, how it learns, and how much of a batch it imagines."""

    searched: ClassVar[dict[str, str]] = {
        "dynamics_lr": "log:1e-4:1e-2",
        "horizon": "[1,2,4]",
        "real_share": "[0.05,0.2,0.5]",
    }

    algo: str = "mbpo"

    members: PositiveInt = 7  # networks of the ensemble
    elites: PositiveInt = 5  # of them those that predict, with the least errors on what is held out
    # Units of each one's hidden layers.
    dynamics_hidden: tuple[PositiveInt, ...] = (200, 200, 200, 200)
    dynamics_lr: PositiveFloat = 1e-3  # learning rate of the ensemble
    dynamics_period: PositiveInt = 4  # updates of the policy for each of the ensemble
    # Updates at the start in which the ensemble learns every time, and nothing that it imagines is used.
    dynamics_warmup: Count = 500
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1  # share of transitions that members are ranked by
    horizon: PositiveInt = 1  # imagined steps from every replayed state
    real_share: Fraction = 0.05  # of a batch that policy and critics learn from: real transitions

    def check(self) -> None:
        """Raises UsageError where elites are more than members, or transitions are not single steps."""
        super().check()
        if self.elites > self.members:
            raise UsageError(f"hparam elites={self.elites} is above members={self.members}: take no more")
        if self.n_step > 1 or self.memory_name == "prioritized":
            raise UsageError(
                "mbpo learns dynamics of single steps, all replayed alike: leave n_step and prioritized out"
            )

    def check_training(self) -> None:
        """Raises UsageError where rewards are for what is new."""
        refuse_curiosity(self)


def updates_per_step(num_envs: int, rollout_length: int, updates: int) -> dict[str, Any]:
    """Returns rollouts after which each of their steps is worth so many updates."""
    steps = num_envs * rollout_length
    return dict(num_envs=num_envs, rollout_length=rollout_length, updates_per_iteration=updates * steps)


@register
def mbpo() -> MBPOHParams:
    """MBPO on any environment with bounded continuous actions: give --env ID."""
    return MBPOHParams.of(small_networks(256, 256), updates_per_step(1, 8, 20))


@register
def mbpo_pendulum() -> MBPOHParams:
    """MBPO on Pendulum-v1."""
    # 20 updates a step are most of what it gains on sac_pendulum here: with real_share=1, which learns from
    # nothing imagined, seed 0 returned -150.7 where it has -149.9.
    return mbpo(
        REPLAY["Pendulum-v1"],
        small_networks(64, 64),
        updates_per_step(1, 8, 20),
        train_steps=5_000,
        eval_period=1_000,
        log_period=500,
        min_replay_size=400,
        random_steps=400,
        dynamics_hidden=(64, 64),
        dynamics_period=2,
        gamma=0.97,
        tau=0.01,
        lr=1e-3,
        lr_schedule="linear",
    )


@register
def mbpo_identity() -> MBPOHParams:
    """MBPO on Identity-v0, continuous: the smallest test that anything is learned."""
    return mbpo(
        IDENTITY,
        CONTINUOUS,
        temperature=0.1,
        members=3,
        elites=2,
        dynamics_hidden=(32,),
        dynamics_warmup=100,
        real_share=0.5,
    )
