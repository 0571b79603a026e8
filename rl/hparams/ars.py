"""Hyperparameters and named sets of ARS (`rl/agents/algos/ars.py`)."""

from __future__ import annotations

from typing import Literal

from rl.errors import UsageError
from rl.hparams.es import ESHParams
from rl.hparams.hparams import PositiveFloat, PositiveInt
from rl.hparams.registry import register


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


@register
def ars() -> ARSHParams:
    """ARS V2 on any environment: give --env ID, and rollout_length where episodes are not of 1,000 steps."""
    hparams = ARSHParams()
    hparams.train_steps = 2_000_000
    hparams.log_period = 50_000
    hparams.normalize_observation = True
    hparams.num_envs = 32
    hparams.rollout_length = 1_000
    hparams.model.hidden = ()
    return hparams


@register
def ars_cartpole() -> ARSHParams:
    """ARS on CartPole-v1."""
    hparams = ars()
    hparams.env = "CartPole-v1"
    hparams.train_steps = 49_600  # whole iterations
    hparams.eval_period = 10_000
    hparams.log_period = 5_000
    hparams.num_envs = 8
    hparams.rollout_length = 200
    hparams.lr = 0.05
    hparams.perturbation_std = 0.05
    return hparams


@register
def ars_acrobot() -> ARSHParams:
    """ARS on Acrobot-v1."""
    hparams = ars()
    hparams.env = "Acrobot-v1"
    hparams.train_steps = 496_000  # whole iterations
    hparams.eval_period = 100_000
    hparams.num_envs = 16
    hparams.rollout_length = 500
    hparams.top_directions = 4
    hparams.lr = 0.02
    hparams.perturbation_std = 0.05
    return hparams


@register
def ars_mountaincar_continuous() -> ARSHParams:
    """ARS on MountainCarContinuous-v0."""
    hparams = ars()
    hparams.env = "MountainCarContinuous-v0"
    hparams.train_steps = 495_504  # whole iterations
    hparams.eval_period = 100_000
    hparams.num_envs = 16
    hparams.rollout_length = 999
    hparams.top_directions = 4
    hparams.lr = 0.05
    hparams.perturbation_std = 0.1
    return hparams


@register
def ars_lunarlander_continuous() -> ARSHParams:
    """ARS on LunarLanderContinuous-v3; not measured here."""
    hparams = ars()
    hparams.env = "LunarLanderContinuous-v3"
    hparams.train_steps = 1_000_000
    hparams.eval_period = 200_000
    hparams.num_envs = 16
    hparams.top_directions = 4
    return hparams


@register
def ars_halfcheetah() -> ARSHParams:
    """ARS V2 on HalfCheetah-v5 (the paper's settings); not measured here."""
    hparams = ars()
    hparams.env = "HalfCheetah-v5"
    hparams.train_steps = 12_500_000
    hparams.num_envs = 64
    hparams.top_directions = 4
    hparams.lr = 0.02
    hparams.perturbation_std = 0.03
    return hparams


@register
def ars_hopper() -> ARSHParams:
    """ARS V2 on Hopper-v5 (the paper's settings); not measured here."""
    hparams = ars()
    hparams.env = "Hopper-v5"
    hparams.train_steps = 7_000_000
    hparams.num_envs = 16
    hparams.top_directions = 4
    hparams.lr = 0.01
    hparams.perturbation_std = 0.025
    hparams.alive_bonus = 1.0
    return hparams


@register
def ars_walker2d() -> ARSHParams:
    """ARS V2 on Walker2d-v5 (the paper's settings); not measured here."""
    hparams = ars()
    hparams.env = "Walker2d-v5"
    hparams.train_steps = 75_000_000
    hparams.num_envs = 80
    hparams.top_directions = 30
    hparams.lr = 0.03
    hparams.perturbation_std = 0.025
    hparams.alive_bonus = 1.0
    return hparams


@register
def ars_identity() -> ARSHParams:
    """ARS on Identity-v0: the smallest test that anything is learned."""
    hparams = ars()
    hparams.env = "Identity-v0"
    hparams.train_steps = 12_800
    hparams.log_period = 1_000
    hparams.normalize_observation = False
    hparams.rollout_length = 20
    return hparams
