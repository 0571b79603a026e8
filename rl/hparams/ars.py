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
    """ARS on any environment: give --env ID."""
    hparams = ARSHParams()
    hparams.num_envs = 32
    hparams.rollout_length = 1_000
    hparams.train_steps = 2_000_000
    hparams.log_period = 50_000
    hparams.model.hidden = ()
    hparams.normalize_observation = True
    return hparams


@register
def ars_identity() -> ARSHParams:
    """ARS on Identity-v0: the smallest test that anything is learned."""
    hparams = ars()
    hparams.env = "Identity-v0"
    hparams.train_steps = 12_800
    hparams.num_envs = 32
    hparams.rollout_length = 20
    hparams.normalize_observation = False
    hparams.log_period = 1_000
    return hparams
