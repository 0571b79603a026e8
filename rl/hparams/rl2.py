"""Named sets of RL^2 (Duan et al. 2016, https://arxiv.org/abs/1611.02779).

They are PPO with a model that remembers, an episode that is a whole trial of one task, and observations that
tell of the action and the reward before.
"""

from __future__ import annotations

from typing import Any

from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import register

TRIALS: dict[str, Any] = dict(
    train_env_kwargs=dict(tasks="train"),
    previous_action_reward=True,
    lr_schedule="linear",
    epochs=8,
    minibatches=4,
)


@register
def rl2_bandit() -> PPOHParams:
    """RL^2 (Duan et al. 2016): recurrent PPO on BernoulliBandits-v0, whose episode is a trial of 20 pulls."""
    return PPOHParams.of(
        TRIALS,
        env="BernoulliBandits-v0",
        env_kwargs=dict(pulls=20, tasks="test"),
        eval_policy="sample",
        train_steps=1_000_000,
        eval_period=500_000,
        log_period=50_000,
        num_envs=128,
        rollout_length=21,  # a trial, and its reset
        lr=1e-3,
        gae_lambda=0.3,
        model=dict(name="gru", hidden=(64,)),
    )


@register
def rl2_half_cheetah_velocity() -> PPOHParams:
    """RL^2, recurrent PPO, on HalfCheetahVelocity-v0, whose episode is a trial; not measured here."""
    return PPOHParams.of(
        TRIALS,
        env="HalfCheetahVelocity-v0",
        env_kwargs=dict(tasks="test"),
        normalize_observation=True,
        normalize_reward=True,
        train_steps=10_000_000,
        eval_period=1_000_000,
        log_period=50_000,
        num_envs=32,
        rollout_length=201,  # a trial, and its reset
        model=dict(name="gru", hidden=(64,), recurrent_units=128),
    )
