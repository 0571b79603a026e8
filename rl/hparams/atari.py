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
from rl.hparams.dqn import DQNHParams, dense_networks
from rl.hparams.hparams import HParams
from rl.hparams.impala import IMPALAHParams
from rl.hparams.ppo import PPOHParams
from rl.hparams.rainbow import RainbowHParams
from rl.hparams.registry import register
from rl.hparams.vpg import VPGHParams


def atari(hparams: HParams, env: str) -> None:
    """What all sets here share."""
    hparams.env = env
    hparams.env_kwargs = {"frame_skip": 4, "noop_max": 30, "repeat_action_probability": 0.0}
    hparams.train_env_kwargs = {"episodic_life": True}
    hparams.reward_augmentation = "clip_sign"
    hparams.train_steps = 10_000_000
    hparams.eval_period = 250_000
    hparams.log_period = 10_000
    hparams.model.name = "nature_cnn"
    hparams.model.hidden = (512,)
    hparams.model.activation = "relu"


def replayed(hparams: DQNHParams | DDPGHParams) -> None:
    """What learns from a replay memory: one update for every four steps. The papers keep a million."""
    hparams.num_envs = 8
    hparams.rollout_length = 4
    hparams.updates_per_iteration = 8
    hparams.batch_size = 32
    hparams.replay_capacity = 200_000
    hparams.min_replay_size = 20_000


@register
def ppo_atari() -> PPOHParams:
    """PPO on Breakout-v5, or on the Atari game given by --env (Schulman et al. 2017, table 5)."""
    hparams = PPOHParams()
    atari(hparams, "Breakout-v5")
    hparams.num_envs = 8
    hparams.rollout_length = 128
    hparams.lr = 2.5e-4
    hparams.lr_schedule = "linear"
    hparams.clip_range = 0.1
    hparams.clip_value_range = 0.1
    hparams.entropy_coef = 0.01
    hparams.model.shared = True
    return hparams


@register
def ppo_pong() -> PPOHParams:
    """PPO on Pong-v5."""
    hparams = ppo_atari()
    hparams.env = "Pong-v5"
    return hparams


@register
def ppo_pong_small() -> PPOHParams:
    """PPO on Pong-v5 with a small network, which two cores train within the hour.

    The network is about that of Mnih et al. 2013 (https://arxiv.org/abs/1312.5602).
    """
    hparams = ppo_pong()
    hparams.train_steps = 1_500_000
    hparams.eval_period = 250_000
    hparams.log_period = 25_000
    hparams.lr = 1e-3
    hparams.overlap = True
    hparams.model.filters = (16, 32, 32)
    hparams.model.hidden = (256,)
    return hparams


@register
def impala_atari() -> IMPALAHParams:
    """IMPALA with its residual network on Breakout-v5, or on the Atari game given by --env."""
    hparams = IMPALAHParams()
    atari(hparams, "Breakout-v5")
    hparams.num_envs = 32
    hparams.rollout_length = 20
    hparams.lr = 6e-4
    hparams.lr_schedule = "linear"
    hparams.entropy_coef = 0.01
    hparams.model.name = "impala_cnn"
    hparams.model.hidden = (256,)
    hparams.model.init = "glorot_uniform"
    hparams.model.shared = True
    return hparams


@register
def vpg_pong() -> VPGHParams:
    """VPG on Pong-v5."""
    hparams = VPGHParams()
    atari(hparams, "Pong-v5")
    hparams.num_envs = 16
    hparams.rollout_length = 128
    return hparams


@register
def dqn_pong() -> DQNHParams:
    """DQN on Pong-v5 (Mnih et al. 2015; learning rate and target period of CleanRL)."""
    hparams = dense_networks(DQNHParams())
    atari(hparams, "Pong-v5")
    replayed(hparams)
    hparams.lr = 1e-4
    hparams.target_update_period = 250
    hparams.exploration_steps = 250_000
    hparams.exploration_epsilon_end = 0.01
    return hparams


@register
def dqn_pong_ram() -> DQNHParams:
    """DQN on Pong-ram-v5: the console's 128 bytes of memory in place of pictures."""
    hparams = dqn_pong()
    hparams.env = "Pong-ram-v5"
    hparams.model.name = "mlp"
    hparams.model.hidden = (256, 256)
    return hparams


@register
def rainbow_atari() -> RainbowHParams:
    """Rainbow on Breakout-v5, or on the Atari game given by --env (Hessel et al. 2018, table 1)."""
    hparams = dense_networks(RainbowHParams())
    atari(hparams, "Breakout-v5")
    replayed(hparams)
    hparams.lr = 6.25e-5
    hparams.target_update_period = 2_000
    return hparams


@register
def ddpg_pong() -> DDPGHParams:
    """DDPG on Pong-v5, whose actions are discrete: through a straight-through Gumbel-softmax."""
    hparams = ddpg()
    atari(hparams, "Pong-v5")
    replayed(hparams)
    hparams.random_steps = 20_000
    hparams.lr = 1e-4
    return hparams
