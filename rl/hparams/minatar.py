"""Named sets on MinAtar's games (Young and Tian 2019, https://arxiv.org/abs/1903.03176), in-graph.

Each is for all five games: give --env MinAtar/Asterix-v1, Breakout-v1, Freeway-v1, Seaquest-v1 or
SpaceInvaders-v1. Actions stick and games become faster, as in the original. `model.name=minatar_cnn` is the
network of the games' authors: ten times slower here.
"""

from __future__ import annotations

from rl.hparams.dqn import DQNHParams, dense_networks
from rl.hparams.hparams import HParams
from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import register

BREAKOUT, SPACE_INVADERS = "MinAtar/Breakout-v1", "MinAtar/SpaceInvaders-v1"


def minatar(hparams: HParams, env: str) -> None:
    """What all sets here share."""
    hparams.env = env
    hparams.log_period = 100_000
    hparams.model.activation = "relu"


@register
def ppo_minatar() -> PPOHParams:
    """PPO on MinAtar's Breakout, or on the game given by --env; network and rates of PureJaxRL."""
    hparams = PPOHParams()
    minatar(hparams, BREAKOUT)
    hparams.train_steps = 5_000_000
    hparams.eval_period = 500_000
    hparams.num_envs = 64
    hparams.rollout_length = 128
    hparams.lr = 5e-3
    hparams.lr_schedule = "linear"
    hparams.model.hidden = (64, 64)
    hparams.epochs = 4
    hparams.minibatches = 8
    hparams.entropy_coef = 0.01
    hparams.clip_value_range = 0.2
    return hparams


@register
def ppo_breakout_minatar() -> PPOHParams:
    """PPO on MinAtar's Breakout."""
    return ppo_minatar()


@register
def ppo_space_invaders_minatar() -> PPOHParams:
    """PPO on MinAtar's Space Invaders."""
    hparams = ppo_minatar()
    hparams.env = SPACE_INVADERS
    return hparams


@register
def dqn_minatar() -> DQNHParams:
    """Double DQN with 3-step returns on MinAtar's Breakout, or on the game given by --env."""
    hparams = dense_networks(DQNHParams())
    minatar(hparams, BREAKOUT)
    hparams.double = True
    hparams.model.hidden = (128, 128)
    hparams.train_steps = 1_000_000
    hparams.eval_period = 100_000
    hparams.num_envs = 16
    hparams.rollout_length = 8
    hparams.updates_per_iteration = 16
    hparams.batch_size = 64
    hparams.lr = 2.5e-4
    hparams.replay_capacity = 100_000
    hparams.min_replay_size = 5_000
    hparams.target_update_period = 250
    hparams.exploration_steps = 100_000
    hparams.exploration_epsilon_end = 0.05
    hparams.n_step = 3
    return hparams


@register
def dqn_breakout_minatar() -> DQNHParams:
    """Double DQN with 3-step returns on MinAtar's Breakout."""
    return dqn_minatar()


@register
def dqn_space_invaders_minatar() -> DQNHParams:
    """Double DQN with 3-step returns on MinAtar's Space Invaders."""
    hparams = dqn_minatar()
    hparams.env = SPACE_INVADERS
    return hparams
