"""Named sets that find a reward by curiosity (`rl/agents/curiosity.py`), which chance would not.

Without it: `--hparam_override curiosity=none`.
"""

from __future__ import annotations

from rl.hparams.dqn import DENSE, DQNHParams
from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import register

FROZEN_LAKE = dict(
    env="FrozenLake12x12-v0",
    train_steps=798_720,  # whole rollouts, within 800,000
    eval_period=100_000,
    log_period=20_000,
    num_envs=16,
    rollout_length=64,
    lr=1e-3,
    entropy_coef=0.01,
    minibatches=4,
)


@register
def ppo_frozenlake_icm() -> PPOHParams:
    """PPO with the curiosity of ICM on a FrozenLake of 12 x 12; does not reach the goal yet, RND does."""
    return PPOHParams.of(FROZEN_LAKE, curiosity="icm", curiosity_coef=0.2)


@register
def ppo_frozenlake_rnd() -> PPOHParams:
    """PPO with the curiosity of RND on a FrozenLake of 12 x 12 whose goal random actions never reach."""
    return PPOHParams.of(FROZEN_LAKE, curiosity="rnd", curiosity_coef=0.1)


@register
def dqn_deep_sea_rnd() -> DQNHParams:
    """Double DQN with the curiosity of RND on DeepSea-v0 of 20 x 20.

    Random actions find its treasure once in a million episodes.
    """
    return DQNHParams.of(
        DENSE,
        env="DeepSea-v0",
        env_kwargs=dict(size=20),
        double=True,
        train_steps=150_000,
        eval_period=20_000,
        log_period=10_000,
        num_envs=8,
        rollout_length=5,
        updates_per_iteration=10,
        lr=1e-3,
        replay_capacity=100_000,
        min_replay_size=1_000,
        batch_size=128,
        target_update_period=100,
        exploration_steps=10_000,
        exploration_epsilon_end=0.05,
        curiosity="rnd",
        curiosity_coef=1.0,
        curiosity_lr=1e-4,  # faster, what lies beyond the frontier is known before it is reached
    )
