"""Hyperparameters and named sets of GAIL (`rl/agents/algos/gail.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.hparams.hparams import PositiveFloat, PositiveInt, refuse_given
from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class GAILHParams(PPOHParams):
    """PPO's, and the discriminator's."""

    searched: ClassVar[dict[str, str]] = {
        "discriminator_lr": "log:1e-5:1e-3",
        "discriminator_updates": "1:16",
    }

    algo: str = "gail"
    demonstrated: ClassVar[bool] = True

    discriminator_lr: PositiveFloat = 3e-4  # learning rate of what tells the policy's steps from the data's
    discriminator_updates: PositiveInt = 8  # its gradient updates in an iteration
    batch_size: PositiveInt = 128  # the policy's steps in each of them, and as many of the data's

    def check_training(self) -> None:
        """Raises UsageError where rewards are to be changed that nobody looks at."""
        unseen = "does not look at the environment's reward"
        refuse_given(self, unseen, "normalize_reward", "reward_augmentation")


@register
def gail() -> GAILHParams:
    """GAIL on any environment with discrete or continuous actions: give --env ID and data=DIR."""
    return GAILHParams.of(rollout_length=32, epochs=10, value_coef=1.0)


@register
def gail_cartpole() -> GAILHParams:
    """GAIL on CartPole-v1: give data=DIR."""
    return gail(
        ROLLOUT["CartPole-v1"],
        train_steps=200_000,
        eval_period=25_000,
        num_envs=8,
        rollout_length=128,
        lr=1e-3,
        lr_schedule="linear",
        gae_lambda=0.95,
        epochs=10,
        minibatches=8,
    )


@register
def gail_hopper() -> GAILHParams:
    """GAIL on Hopper-v5: give data=DIR; not measured here."""
    return gail(
        env="Hopper-v5",
        train_steps=1_000_000,
        eval_period=100_000,
        normalize_observation=True,
        num_envs=8,
        rollout_length=256,
        lr_schedule="linear",
        minibatches=32,
    )


@register
def gail_identity() -> GAILHParams:
    """GAIL on Identity-v0: the smallest test that anything is learned."""
    return gail(
        env="Identity-v0",
        train_steps=16_384,
        gamma=0.0,
        num_envs=8,
        rollout_length=32,
        lr=3e-3,
        lr_schedule="linear",
        discriminator_lr=1e-3,
        entropy_coef=0.01,
        model=dict(hidden=(32, 32)),
        epochs=4,
        minibatches=4,
    )
