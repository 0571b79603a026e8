"""Hyperparameters and named sets of discrete BCQ (`rl/agents/algos/bcq_discrete.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.dqn import DENSE, DQNHParams
from rl.hparams.hparams import Coefficient, Fraction, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import OFFLINE, OFFLINE_IDENTITY


class BCQDiscreteHParams(DQNHParams):
    """BCQ for discrete actions."""

    searched: ClassVar[dict[str, str]] = {
        "threshold": "0.05:0.7",
    }

    algo: str = "bcq_discrete"
    memory: str = "dataset"
    double: bool = True

    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate
    threshold: Fraction = 0.3  # of the likeliest action's share in the data, below which none is considered
    imitation_weight: Coefficient = 1.0  # of the loss of the data's likelihood
    logit_penalty: Coefficient = 0.01  # weight of the logits' mean square in it


@register
def bcq_discrete() -> BCQDiscreteHParams:
    """Double BCQ from any data of discrete actions: give --hparam_override data=DIR."""
    return BCQDiscreteHParams.of(DENSE, model=dict(hidden=(128, 128)), max_grad_norm=10.0)


@register
def bcq_cartpole() -> BCQDiscreteHParams:
    """Double BCQ with 10-step returns from data of CartPole-v1."""
    # As with CQL: what follows from a move shows a hundred steps later.
    return bcq_discrete(OFFLINE["CartPole-v1"], lr_schedule="linear", n_step=10)


@register
def bcq_discrete_identity() -> BCQDiscreteHParams:
    """Double BCQ from data of Identity-v0: the smallest test that anything is learned."""
    return bcq_discrete(OFFLINE_IDENTITY, tau=1.0, target_update_period=50)
