"""Hyperparameters and named sets of ARS (`rl/agents/algos/ars.py`)."""

from __future__ import annotations

from typing import Literal

from rl.errors import UsageError
from rl.hparams.es import ESHParams
from rl.hparams.hparams import PositiveFloat, PositiveInt, refuse_given
from rl.hparams.registry import register
from rl.hparams.tasks import PARAMETERS


class ARSHParams(ESHParams):
    """ARS for all action spaces. `num_envs` is twice the number of directions, one member for each sign."""

    algo: str = "ars"
    optimizer: Literal["adam", "adamw", "rmsprop", "sgd"] = "sgd"  # the paper's: the step itself
    lr: PositiveFloat = 0.02
    perturbation_std: PositiveFloat = 0.03

    top_directions: PositiveInt | None = None  # followed, of num_envs / 2; None: all
    alive_bonus: float = 0.0  # what the environment pays for every step survived, taken off in training

    def check(self) -> None:
        """Raises UsageError unless there are as many directions as are to be followed."""
        super().check()
        if self.top_directions is not None and 2 * self.top_directions > self.num_envs:
            raise UsageError(
                f"hparam top_directions={self.top_directions}: num_envs={self.num_envs} makes only "
                f"{self.num_envs // 2} directions"
            )

    def check_training(self) -> None:
        """Raises UsageError where `alive_bonus` would be taken off rewards in other units."""
        if self.alive_bonus:
            taken = f"takes alive_bonus={self.alive_bonus:g} off rewards as the environment pays them"
            refuse_given(self, taken, "normalize_reward", "reward_augmentation")


@register
def ars() -> ARSHParams:
    """ARS V2 on any environment: give --env ID, and rollout_length where episodes are not of 1,000 steps."""
    return ARSHParams.of(
        train_steps=2_000_000,
        log_period=50_000,
        normalize_observation=True,
        num_envs=32,
        rollout_length=1_000,
        model=dict(hidden=()),
    )


@register
def ars_cartpole() -> ARSHParams:
    """ARS on CartPole-v1."""
    return ars(PARAMETERS["CartPole-v1"], num_envs=8, lr=0.05, perturbation_std=0.05)


@register
def ars_acrobot() -> ARSHParams:
    """ARS on Acrobot-v1."""
    return ars(PARAMETERS["Acrobot-v1"], num_envs=16, top_directions=4, lr=0.02, perturbation_std=0.05)


@register
def ars_mountaincar_continuous() -> ARSHParams:
    """ARS on MountainCarContinuous-v0."""
    return ars(
        PARAMETERS["MountainCarContinuous-v0"], num_envs=16, top_directions=4, lr=0.05, perturbation_std=0.1
    )


@register
def ars_lunarlander_continuous() -> ARSHParams:
    """ARS on LunarLanderContinuous-v3."""
    return ars(
        env="LunarLanderContinuous-v3",
        train_steps=1_984_000,
        eval_period=500_000,
        log_period=100_000,
        num_envs=16,
        rollout_length=500,  # as long as a landing; the score of a longer one is a mean of several
        lr=0.05,
        perturbation_std=0.05,
    )


@register
def ars_halfcheetah() -> ARSHParams:
    """ARS V2 on HalfCheetah-v5 (the paper's settings); not measured here."""
    return ars(
        env="HalfCheetah-v5",
        train_steps=12_500_000,
        num_envs=64,
        top_directions=4,
        lr=0.02,
        perturbation_std=0.03,
    )


@register
def ars_hopper() -> ARSHParams:
    """ARS V2 on Hopper-v5 (the paper's settings)."""
    return ars(
        env="Hopper-v5",
        train_steps=7_000_000,
        num_envs=16,
        top_directions=4,
        lr=0.01,
        perturbation_std=0.025,
        alive_bonus=1.0,
    )


@register
def ars_walker2d() -> ARSHParams:
    """ARS V2 on Walker2d-v5 (the paper's settings); not measured here."""
    return ars(
        env="Walker2d-v5",
        train_steps=75_000_000,
        num_envs=80,
        top_directions=30,
        lr=0.03,
        perturbation_std=0.025,
        alive_bonus=1.0,
    )


@register
def ars_identity() -> ARSHParams:
    """ARS on Identity-v0: the smallest test that anything is learned."""
    return ars(PARAMETERS["Identity-v0"])
