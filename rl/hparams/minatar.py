"""Named sets on MinAtar's games (Young and Tian 2019, https://arxiv.org/abs/1903.03176), in-graph.

Each is for all five games: give --env MinAtar/Asterix-v1, Breakout-v1, Freeway-v1, Seaquest-v1 or
SpaceInvaders-v1. Actions stick and games become faster, as in the original. `model.name=minatar_cnn` is the
network of the games' authors: ten times slower here.
"""

from __future__ import annotations

from rl.hparams.dqn import DENSE, DQNHParams
from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import register

BREAKOUT, SPACE_INVADERS = "MinAtar/Breakout-v1", "MinAtar/SpaceInvaders-v1"
MINATAR = dict(log_period=100_000, model=dict(activation="relu"))
PPO = dict(  # network and rates of PureJaxRL
    env=BREAKOUT,
    train_steps=5_000_000,
    eval_period=500_000,
    num_envs=64,
    rollout_length=128,
    lr=5e-3,
    lr_schedule="linear",
    epochs=4,
    minibatches=8,
    entropy_coef=0.01,
    clip_value_range=0.2,
    model=dict(hidden=(64, 64)),
)


@register
def ppo_minatar() -> PPOHParams:
    """PPO on MinAtar's Breakout, or on the game given by --env; network and rates of PureJaxRL."""
    return PPOHParams.of(MINATAR, PPO)


@register
def ppo_breakout_minatar() -> PPOHParams:
    """PPO on MinAtar's Breakout."""
    return ppo_minatar()


@register
def ppo_space_invaders_minatar() -> PPOHParams:
    """PPO on MinAtar's Space Invaders."""
    return ppo_minatar(env=SPACE_INVADERS)


@register
def dqn_minatar() -> DQNHParams:
    """Double DQN with 3-step returns on MinAtar's Breakout, or on the game given by --env."""
    return DQNHParams.of(
        DENSE,
        MINATAR,
        env=BREAKOUT,
        double=True,
        train_steps=1_000_000,
        eval_period=100_000,
        num_envs=16,
        rollout_length=8,
        updates_per_iteration=16,
        batch_size=64,
        lr=2.5e-4,
        replay_capacity=100_000,
        min_replay_size=5_000,
        target_update_period=250,
        exploration_steps=100_000,
        exploration_epsilon_end=0.05,
        n_step=3,
        model=dict(hidden=(128, 128)),
    )


@register
def dqn_breakout_minatar() -> DQNHParams:
    """Double DQN with 3-step returns on MinAtar's Breakout."""
    return dqn_minatar()


@register
def dqn_space_invaders_minatar() -> DQNHParams:
    """Double DQN with 3-step returns on MinAtar's Space Invaders."""
    return dqn_minatar(env=SPACE_INVADERS)
