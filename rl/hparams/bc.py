"""Hyperparameters and named sets of BC (`rl/agents/algos/bc.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.ddpg import small_networks
from rl.hparams.hparams import Count, HParams, PositiveFloat, PositiveInt, refuse_given
from rl.hparams.registry import register
from rl.hparams.tasks import OFFLINE


class CloningHParams(HParams):
    """What policies that repeat the data have."""

    searched: ClassVar[dict[str, str]] = {
        "gamma": "",
        "batch_size": "[64,128,256,512]",
    }

    memory: str = "dataset"
    lr: PositiveFloat = 1e-3
    adam_epsilon: PositiveFloat = 1e-8

    batch_size: PositiveInt = 256  # transitions of an update
    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate


class BCHParams(CloningHParams):
    """BC for actions of any kind."""

    algo: str = "bc"

    unroll_length: PositiveInt = 16  # lstm, gru: steps of a sequence, of which an update has batch_size
    burn_in: Count = 8  # lstm, gru: steps before a sequence that only bring the state up to date

    def check_training(self) -> None:
        """Raises UsageError where rewards are to be changed that nobody looks at."""
        refuse_given(self, "does not look at rewards", "normalize_reward", "reward_augmentation")


@register
def bc() -> BCHParams:
    """BC from any data: give --hparam_override data=DIR."""
    return BCHParams.of(small_networks(256, 256), train_steps=50_000)


@register
def bc_cartpole() -> BCHParams:
    """BC from data of CartPole-v1."""
    return bc(OFFLINE["CartPole-v1"], small_networks(64, 64))


@register
def bc_cartpole_no_velocity() -> BCHParams:
    """BC with an LSTM from data of CartPoleNoVel-v1, where velocities have to be remembered."""
    return bc_cartpole(
        env="CartPoleNoVel-v1", batch_size=32, model=dict(name="lstm", hidden=(64,), recurrent_units=64)
    )


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
