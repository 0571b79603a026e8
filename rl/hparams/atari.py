"""Named sets on Atari games, of all algorithms: the same pictures for each of them.

Every fourth frame, in grey, 84 x 84, the last four as one observation; up to 30 idle steps at the start of an
episode and no sticky actions (Mnih et al. 2015). In training a lost life is an end and rewards count by their
sign; evaluation plays whole episodes for the raw score. For sticky actions in place of the idle start
(Machado et al. 2018, https://arxiv.org/abs/1709.06009) give
`env_kwargs={frame_skip:4,noop_max:1,repeat_action_probability:0.25}` and `train_env_kwargs={}`. Steps are the
agent's: four frames each.
"""

from __future__ import annotations

from rl.hparams.ddpg import DDPGHParams, ddpg
from rl.hparams.dqn import DENSE, DQNHParams
from rl.hparams.impala import IMPALAHParams
from rl.hparams.ppo import PPOHParams
from rl.hparams.rainbow import RainbowHParams
from rl.hparams.registry import register
from rl.hparams.vpg import VPGHParams

ATARI = dict(
    env_kwargs={"frame_skip": 4, "noop_max": 30, "repeat_action_probability": 0.0},
    train_env_kwargs={"episodic_life": True},
    reward_augmentation="clip_sign",
    train_steps=10_000_000,
    eval_period=250_000,
    log_period=10_000,
    model=dict(name="nature_cnn", hidden=(512,), activation="relu", precision="auto"),
)
REPLAYED = dict(  # one update for every four steps; the papers' memories hold a million
    num_envs=8,
    rollout_length=4,
    updates_per_iteration=8,
    batch_size=32,
    replay_capacity=200_000,
    min_replay_size=20_000,
)


@register
def ppo_atari() -> PPOHParams:
    """PPO on Breakout-v5, or on the Atari game given by --env (Schulman et al. 2017, table 5)."""
    return PPOHParams.of(
        ATARI,
        env="Breakout-v5",
        num_envs=8,
        rollout_length=128,
        lr=2.5e-4,
        lr_schedule="linear",
        clip_range=0.1,
        clip_value_range=0.1,
        entropy_coef=0.01,
        model=dict(shared=True),
    )


@register
def ppo_pong() -> PPOHParams:
    """PPO on Pong-v5."""
    return ppo_atari(env="Pong-v5")


@register
def ppo_pong_small() -> PPOHParams:
    """PPO on Pong-v5 with a small network, which two cores train within the hour.

    The network is about that of Mnih et al. 2013 (https://arxiv.org/abs/1312.5602).
    """
    return ppo_pong(
        train_steps=1_500_000,
        eval_period=250_000,
        log_period=25_000,
        lr=1e-3,
        overlap=True,
        model=dict(filters=(16, 32, 32), hidden=(256,)),
    )


@register
def impala_atari() -> IMPALAHParams:
    """IMPALA with its residual network on Breakout-v5, or on the Atari game given by --env."""
    return IMPALAHParams.of(
        ATARI,
        env="Breakout-v5",
        num_envs=32,
        rollout_length=20,
        lr=6e-4,
        lr_schedule="linear",
        entropy_coef=0.01,
        model=dict(name="impala_cnn", hidden=(256,), init="glorot_uniform", shared=True),
    )


@register
def vpg_pong() -> VPGHParams:
    """VPG on Pong-v5."""
    return VPGHParams.of(ATARI, env="Pong-v5", num_envs=16, rollout_length=128)


@register
def dqn_pong() -> DQNHParams:
    """DQN on Pong-v5 (Mnih et al. 2015; learning rate and target period of CleanRL)."""
    return DQNHParams.of(
        DENSE,
        ATARI,
        REPLAYED,
        env="Pong-v5",
        lr=1e-4,
        target_update_period=250,
        exploration_steps=250_000,
        exploration_epsilon_end=0.01,
    )


@register
def dqn_pong_ram() -> DQNHParams:
    """DQN on Pong-ram-v5: the console's 128 bytes of memory in place of pictures."""
    return dqn_pong(env="Pong-ram-v5", model=dict(name="mlp", hidden=(256, 256)))


@register
def rainbow_atari() -> RainbowHParams:
    """Rainbow on Breakout-v5, or on the Atari game given by --env (Hessel et al. 2018, table 1)."""
    return RainbowHParams.of(
        DENSE, ATARI, REPLAYED, env="Breakout-v5", lr=6.25e-5, target_update_period=2_000
    )


@register
def ddpg_pong() -> DDPGHParams:
    """DDPG on Pong-v5, whose actions are discrete: through a straight-through Gumbel-softmax."""
    return ddpg(ATARI, REPLAYED, env="Pong-v5", random_steps=20_000, lr=1e-4)
