"""Hyperparameters and named sets of VDN (`rl/agents/algos/vdn.py`)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from rl.hparams.dqn import TWO_STEP, DQNHParams
from rl.hparams.registry import register
from rl.hparams.tasks import REPLAY


class VDNHParams(DQNHParams):
    """VDN: DQN's, for a team."""

    algo: str = "vdn"
    view: ClassVar[str] = "joint"
    loss: Literal["huber", "mse"] = "mse"


TEAM: dict[str, Any] = dict(  # of any environment of a team
    double=True,
    num_envs=8,
    rollout_length=8,
    updates_per_iteration=16,
    lr=5e-4,
    max_grad_norm=10.0,
    replay_capacity=100_000,
    target_update_period=200,
    exploration_steps=50_000,
    model=dict(hidden=(128, 128), activation="relu", init="lecun_uniform"),
)


@register
def vdn() -> VDNHParams:
    """VDN with double learning on any environment of agents with discrete actions: give --env ID."""
    return VDNHParams.of(TEAM)


@register
def vdn_two_step() -> VDNHParams:
    """VDN with double learning on TwoStepGame-v0, where a sum of values misses the best return of 8.

    As in the paper on QMIX it takes the safe 7: 7.0 with each of the seeds 100 to 102, last checkpoint.
    """
    return VDNHParams.of(TWO_STEP)


@register
def vdn_spread() -> VDNHParams:
    """VDN with double learning on SimpleSpread-v0, three agents; not measured here."""
    return vdn(REPLAY["SimpleSpread-v0"])
