"""Hyperparameters and named sets of MB-MPO (`rl/agents/algos/mbmpo.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.hparams import PositiveFloat, PositiveInt, refuse_curiosity
from rl.hparams.maml import MetaHParams
from rl.hparams.registry import register
from rl.hparams.tasks import REPLAY


class MBMPOHParams(MetaHParams):
    """MB-MPO: the ensemble whose members are the tasks, how it learns, and what is imagined in it."""

    n_step: ClassVar[int] = 1  # dynamics are of single steps
    searched: ClassVar[dict[str, str]] = {
        "dynamics_lr": "log:1e-4:1e-2",
        "horizon": "[25,50,100,200]",
        "updates_per_iteration": "[15,30,60]",
    }

    algo: str = "mbmpo"
    memory: str = "uniform"
    max_grad_norm: PositiveFloat | None = None
    # Added to the root of the second moment; more hides the ends' gradient, small beside the predictions'.
    adam_epsilon: PositiveFloat = 1e-8
    num_envs: PositiveInt = 5
    rollout_length: PositiveInt = 40

    replay_capacity: PositiveInt = 100_000  # transitions in total
    min_replay_size: PositiveInt = 100  # transitions before the first update
    batch_size: PositiveInt = 1_000  # transitions of an update, from which members learn and imagine
    updates_per_iteration: PositiveInt = 30  # meta-updates after each rollout
    members: PositiveInt = 5  # networks of the ensemble, each a task of `task_episodes` imagined episodes
    # Units of each one's hidden layers.
    dynamics_hidden: tuple[PositiveInt, ...] = (200, 200)
    dynamics_lr: PositiveFloat = 1e-3  # learning rate of the ensemble
    dynamics_steps: PositiveInt = 40  # gradient steps of the ensemble before each meta-update
    dynamics_batch_size: PositiveInt = 256  # transitions of such a step, drawn from those of the update
    horizon: PositiveInt = 100  # imagined steps of an episode at most

    def check(self) -> None:
        """Raises UsageError where an update has too few transitions to begin at, or ones by priority."""
        super().check()
        if self.memory_name == "prioritized":
            raise UsageError("mbmpo replays all transitions alike: leave memory=prioritized out")
        starts = self.members * self.task_episodes
        if starts > self.batch_size:
            raise UsageError(
                f"hparam batch_size={self.batch_size} is below members * task_episodes = {starts}, imagined "
                "episodes that each begin at a transition of the batch: change one of the three"
            )

    def check_training(self) -> None:
        """Raises UsageError where rewards are for what is new."""
        refuse_curiosity(self)


@register
def mbmpo() -> MBMPOHParams:
    """MB-MPO on any environment with discrete or bounded continuous actions: give --env ID."""
    return MBMPOHParams.of(model=dict(hidden=(32, 32)))


@register
def mbmpo_cartpole() -> MBMPOHParams:
    """MB-MPO on CartPole-v1 with episodes of 200 steps, 20 iterations of 200 steps."""
    return mbmpo(
        env="CartPole-v1",
        max_episode_steps=200,
        train_steps=4_000,
        eval_period=1_000,
        log_period=200,
        inner_lr=0.5,
        dynamics_hidden=(64, 64),
    )


@register
def mbmpo_identity() -> MBMPOHParams:
    """MB-MPO on Identity-v0: the smallest test that anything is learned."""
    return mbmpo(
        REPLAY["Identity-v0"],
        members=3,
        dynamics_hidden=(32,),
        task_episodes=8,
        horizon=4,
        batch_size=64,
        dynamics_batch_size=64,
        dynamics_steps=20,
        updates_per_iteration=2,
        lr=1e-2,
        model=dict(hidden=(16,)),
    )
