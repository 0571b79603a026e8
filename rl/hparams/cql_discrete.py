"""Hyperparameters and named sets of discrete CQL (`rl/agents/algos/cql_discrete.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.dqn import DENSE
from rl.hparams.hparams import Coefficient, PositiveInt
from rl.hparams.qrdqn import QRDQNHParams
from rl.hparams.registry import register
from rl.hparams.tasks import OFFLINE, OFFLINE_IDENTITY


class CQLDiscreteHParams(QRDQNHParams):
    """CQL for discrete actions."""

    searched: ClassVar[dict[str, str]] = {
        "conservative_weight": "log:0.1:20.0",
    }

    algo: str = "cql_discrete"
    memory: str = "dataset"
    double: bool = True

    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate
    conservative_weight: Coefficient = 1.0  # of the values of actions that are not in the data; 0: QR-DQN


@register
def cql_discrete() -> CQLDiscreteHParams:
    """Double CQL from any data of discrete actions: give --hparam_override data=DIR."""
    return CQLDiscreteHParams.of(DENSE, model=dict(hidden=(128, 128)), max_grad_norm=10.0)


@register
def cql_cartpole() -> CQLDiscreteHParams:
    """Double CQL with 10-step returns from data of CartPole-v1."""
    # A cart leaves the track after a hundred steps and more: values must have come back from so far.
    return cql_discrete(OFFLINE["CartPole-v1"], lr_schedule="linear", n_step=10, target_update_period=100)


@register
def cql_discrete_identity() -> CQLDiscreteHParams:
    """Double CQL from data of Identity-v0: the smallest test that anything is learned."""
    return cql_discrete(OFFLINE_IDENTITY, tau=1.0, target_update_period=50)
