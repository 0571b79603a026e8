"""Hyperparameters and named sets of BC (`rl/agents/algos/bc.py`)."""

from __future__ import annotations

from rl.hparams.ddpg import small_networks
from rl.hparams.hparams import HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import OFFLINE


class BCHParams(HParams):
    """What policies that repeat the data have."""

    algo: str = "bc"
    memory: str = "dataset"
    lr: PositiveFloat = 1e-3
    adam_epsilon: PositiveFloat = 1e-8

    batch_size: PositiveInt = 256  # transitions of an update
    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate


@register
def bc() -> BCHParams:
    """BC from any data: give --hparam_override data=DIR."""
    return BCHParams.of(small_networks(256, 256), train_steps=50_000)


@register
def bc_cartpole() -> BCHParams:
    """BC from data of CartPole-v1."""
    return bc(OFFLINE["CartPole-v1"], small_networks(64, 64))


@register
def bc_halfcheetah() -> BCHParams:
    """BC from data of HalfCheetah-v5."""
    return bc(OFFLINE["HalfCheetah-v5"], lr=3e-4)


@register
def bc_hopper() -> BCHParams:
    """BC from data of Hopper-v5."""
    return bc(OFFLINE["Hopper-v5"], lr=3e-4)


@register
def bc_identity() -> BCHParams:
    """BC from data of Identity-v0: the smallest test that anything is learned."""
    return bc(OFFLINE["Identity-v0"], small_networks(32, 32), lr=3e-3)
