"""Hyperparameters and named sets of ReBRAC (`rl/agents/algos/rebrac.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.hparams import Coefficient, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import CONTINUOUS, OFFLINE, OFFLINE_IDENTITY, OFFLINE_LOCOMOTION
from rl.hparams.td3 import TD3HParams


class ReBRACHParams(TD3HParams):
    """ReBRAC for bounded continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "policy_penalty": "log:1e-3:0.1",
        "critic_penalty": "log:1e-3:0.1",
    }

    anneals: ClassVar[tuple[str, ...]] = ()  # it plays nothing
    algo: str = "rebrac"
    memory: str = "dataset"

    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate
    policy_penalty: Coefficient = 0.01  # of the policy's distance from the data's actions
    critic_penalty: Coefficient = 0.01  # of the target policy's distance from the data's next actions
    critic_layer_norm: bool = True  # critics' layers are normalised; the policy's are by model.layer_norm


@register
def rebrac() -> ReBRACHParams:
    """ReBRAC from any data of bounded continuous actions: give --hparam_override data=DIR."""
    return ReBRACHParams.of(OFFLINE_LOCOMOTION, model=dict(hidden=(256, 256, 256)), batch_size=1024, lr=1e-3)


@register
def rebrac_halfcheetah() -> ReBRACHParams:
    """ReBRAC from data of HalfCheetah-v5, settings of the paper for data of a medium policy."""
    return rebrac(OFFLINE["HalfCheetah-v5"], policy_penalty=0.001, critic_penalty=0.01)


@register
def rebrac_hopper() -> ReBRACHParams:
    """ReBRAC from data of Hopper-v5, settings of the paper for data of a medium policy."""
    return rebrac(OFFLINE["Hopper-v5"], policy_penalty=0.01, critic_penalty=0.001)


@register
def rebrac_identity() -> ReBRACHParams:
    """ReBRAC from data of Identity-v0, continuous: the smallest test that anything is learned."""
    return rebrac(OFFLINE_IDENTITY, CONTINUOUS)
