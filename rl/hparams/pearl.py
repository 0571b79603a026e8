"""Hyperparameters and named sets of PEARL (`rl/agents/algos/pearl.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.ddpg import IDENTITY, small_networks
from rl.hparams.hparams import Coefficient, Count, PositiveInt
from rl.hparams.maml import check_trials
from rl.hparams.registry import register
from rl.hparams.sac import SACHParams
from rl.hparams.tasks import CONTINUOUS


class PEARLHParams(SACHParams):
    """SAC that infers its task. `num_envs` are tasks times `task_episodes`; a rollout is a trial, of
    `inner_steps` + 1 parts, each as long as an episode and the step that resets it."""

    adapts: ClassVar[bool] = True
    burn_in: ClassVar[int] = 0  # of the memory's sequences
    searched: ClassVar[dict[str, str]] = {
        "batch_size": "[8,16,32]",
        "kl_lambda": "log:0.01:1.0",
        "latent_size": "[2,5,8]",
    }

    algo: str = "pearl"
    memory: str = "sequence"
    num_envs: PositiveInt = 16
    rollout_length: PositiveInt = 303

    random_steps: Count = 0  # environment steps at the start with uniformly random actions
    batch_size: PositiveInt = 16  # trials of an update, each of a task
    task_episodes: PositiveInt = 1  # environments that play the same task side by side
    inner_steps: PositiveInt = 2  # times that the belief of a task takes in what was seen, after a part each
    latent_size: PositiveInt = 5  # numbers of z, which says which task it is
    context_size: PositiveInt = 64  # transitions of a trial from which an update infers z
    replay_size: PositiveInt = 32  # transitions of a trial from which policy and critics learn in an update
    kl_lambda: Coefficient = 0.1  # weight of the divergence of the belief of z from its prior

    @property
    def part_length(self) -> int:
        """Returns the steps of a part of a rollout, its reset included."""
        return self.rollout_length // (self.inner_steps + 1)

    @property
    def unroll_length(self) -> int:
        """Returns the steps of the memory's sequences: a trial but for its last step, which resets."""
        return self.rollout_length - 1

    def check(self) -> None:
        """Raises UsageError unless rollouts are whole trials, which are replayed alike, in single steps."""
        super().check()
        check_trials(self)
        if self.n_step > 1 or self.prioritized:
            raise UsageError(
                "pearl learns from single steps of trials, all replayed alike: leave n_step and prioritized "
                "out"
            )


@register
def pearl() -> PEARLHParams:
    """PEARL on any in-graph environment whose tasks are drawn: give --env ID.

    A `rollout_length` of inner_steps + 1 times an episode and a step lets whole episodes count.
    """
    return PEARLHParams.of(
        small_networks(128, 128),
        train_steps=969_600,
        log_period=48_480,
        replay_capacity=1_000_000,
        updates_per_iteration=200,
    )


@register
def pearl_navigation() -> PEARLHParams:
    """PEARL on Navigation2D-v0, evaluated without context, on goals that training never had."""
    return pearl(
        env="Navigation2D-v0",
        env_kwargs=dict(tasks="test"),
        train_env_kwargs=dict(tasks="train"),
        train_steps=484_800,
        eval_period=242_400,
        log_period=24_240,
        lr=1e-3,
        gamma=0.9,
        temperature=0.1,
        target_entropy=0.7,  # 1.39 at most: who moves less at random sees too little of where the goal is
        kl_lambda=1e-4,  # for squared errors of rewards below 1, which the authors multiply by 5 or 100
    )


@register
def pearl_identity() -> PEARLHParams:
    """PEARL on Identity-v0, continuous, one task: the smallest test that anything is learned."""
    return pearl(
        IDENTITY,
        CONTINUOUS,
        num_envs=4,
        rollout_length=24,
        inner_steps=1,
        random_steps=0,
        batch_size=4,
        context_size=8,
        replay_size=16,
        latent_size=2,
        temperature=0.1,
        updates_per_iteration=32,
    )
