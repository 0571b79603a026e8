"""Hyperparameters and named sets of MAML (`rl/agents/algos/maml.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class MetaHParams(HParams):
    """How a policy adapts to a task, and how it is learned that it can."""

    searched: ClassVar[dict[str, str]] = {
        "inner_lr": "log:0.01:1.0",
        "epochs": "1:10",
        "clip_range": "0.1:0.4",
        "max_grad_norm": "log:0.3:5.0",
    }

    lr: PositiveFloat = 1e-3
    max_grad_norm: PositiveFloat | None = 0.5

    task_episodes: PositiveInt = 20  # episodes of a task that are played side by side
    inner_steps: PositiveInt = 1  # gradient steps that adapt to a task, each after these were played anew
    inner_lr: PositiveFloat = 0.1  # length of these steps, by plain gradient descent
    second_order: bool = True  # the gradient goes through these steps; false: past them (first-order MAML)
    epochs: PositiveInt = 5  # steps of the optimizer on what tasks were played, on all of it
    clip_range: PositiveFloat = 0.2  # of the ratio of adapted policies around 1
    entropy_coef: Coefficient = 0.0  # weight of the adapted policies' entropy, which is added
    log_std_init: float = -0.5  # continuous actions: logarithm of the first deviation, in half ranges


class MAMLHParams(MetaHParams):
    """MAML for all kinds of actions. `num_envs` are tasks times `task_episodes`; a rollout is `inner_steps` +
    1 parts, each as long as an episode and the step that resets it."""

    adapts: ClassVar[bool] = True

    algo: str = "maml"
    num_envs: PositiveInt = 400
    rollout_length: PositiveInt = 202

    def check(self) -> None:
        """Raises UsageError unless environments make whole tasks, and rollouts whole parts."""
        super().check()
        check_trials(self)


def check_trials(hparams: Any) -> None:
    """Raises UsageError unless environments make whole tasks, and rollouts whole parts."""
    if hparams.num_envs % hparams.task_episodes:
        raise UsageError(
            f"hparam task_episodes={hparams.task_episodes} does not divide num_envs={hparams.num_envs}, "
            "which are of whole tasks: change one of the two"
        )
    parts = hparams.inner_steps + 1
    if hparams.rollout_length % parts or hparams.rollout_length < 2 * parts:
        raise UsageError(
            f"hparam rollout_length={hparams.rollout_length}: inner_steps + 1 = {parts} parts need a "
            "multiple of that, with an episode and the step that resets it in each"
        )


@register
def maml() -> MAMLHParams:
    """MAML on any in-graph environment whose tasks are drawn: give --env ID.

    A `rollout_length` of inner_steps + 1 times an episode and a step lets whole episodes count.
    """
    return MAMLHParams.of(train_steps=8_000_000, log_period=400_000)


@register
def maml_navigation() -> MAMLHParams:
    """MAML on Navigation2D-v0, evaluated before it adapts, on goals that training never had."""
    return maml(
        env="Navigation2D-v0",
        env_kwargs=dict(tasks="test"),
        train_env_kwargs=dict(tasks="train"),
        eval_policy="sample",
        train_steps=4_848_000,
        eval_period=2_424_000,
        log_period=404_000,
        lr=2e-3,
        lr_schedule="linear",
        model=dict(hidden=(64, 64)),
    )


@register
def maml_pendulum_mass() -> MAMLHParams:
    """MAML on PendulumMass-v0, evaluated before it adapts, on masses that training never had.

    Most runs learn a policy that does for all masses, which adapting does not improve.
    """
    return maml(
        env="PendulumMass-v0",
        env_kwargs=dict(tasks="test"),
        train_env_kwargs=dict(tasks="train"),
        eval_policy="sample",
        num_envs=160,
        rollout_length=402,
        task_episodes=8,
        train_steps=4_824_000,
        eval_period=2_412_000,
        log_period=321_600,
        lr=2e-3,
        lr_schedule="linear",
        gamma=0.95,
        epochs=10,
        model=dict(hidden=(64, 64)),
    )


@register
def maml_identity() -> MAMLHParams:
    """MAML on Identity-v0, one task: the smallest test that anything is learned."""
    return maml(
        ROLLOUT["Identity-v0"],
        num_envs=16,
        task_episodes=8,
        rollout_length=16,
        train_steps=16_384,
        lr=1e-2,
        model=dict(hidden=(16,)),
    )
