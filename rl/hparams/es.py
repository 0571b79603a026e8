"""Hyperparameters and named sets of ES (`rl/agents/algos/es.py`)."""

from __future__ import annotations

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, HParams, PositiveFloat
from rl.hparams.registry import register


class ESHParams(HParams):
    """ES for all action spaces. `num_envs` is the population, `rollout_length` how long each plays."""

    algo: str = "es"
    act_select: str = "greedy"
    grad_comp: str = "evolution"
    adam_epsilon: PositiveFloat = 1e-8
    lr: PositiveFloat = 1e-2

    perturbation_std: PositiveFloat = 0.02  # of the noise added to every parameter
    weight_decay: Coefficient = 0.0  # times the parameters, added to the gradient

    def check(self) -> None:
        """Raises UsageError unless the population is of pairs that play for the update that follows."""
        super().check()
        if self.num_envs % 2:
            raise UsageError(
                f"hparam num_envs={self.num_envs}: the population of {self.algo} is of mirrored pairs, "
                "it needs an even number"
            )
        if self.overlap:
            raise UsageError(
                f"hparam overlap=true: {self.algo} has no next population before the present one is rated; "
                "leave it false"
            )
        if self.grad_comp in ("backprop", "accumulate"):
            raise UsageError(
                f"hparam grad_comp={self.grad_comp}: {self.algo} has no loss to differentiate, take evolution"
            )


@register
def es() -> ESHParams:
    """ES on any environment: give --env ID."""
    hparams = ESHParams()
    hparams.num_envs = 64
    hparams.rollout_length = 1_000
    hparams.train_steps = 10_000_000
    hparams.log_period = 100_000
    hparams.model.hidden = (64, 64)
    return hparams


@register
def es_identity() -> ESHParams:
    """ES on Identity-v0: the smallest test that anything is learned."""
    hparams = es()
    hparams.env = "Identity-v0"
    hparams.train_steps = 12_800
    hparams.num_envs = 32
    hparams.rollout_length = 20
    hparams.perturbation_std = 0.3
    hparams.lr = 0.1
    hparams.model.hidden = (8,)
    hparams.log_period = 1_000
    return hparams
