"""Named sets on pictures in colour: Procgen's games, CoinRun among them, and CarRacing.

Procgen draws its levels at random (Cobbe et al. 2020, https://arxiv.org/abs/1912.01588): training has
`num_levels` of them from `start_level` on, evaluation all; the levels trained on are evaluated apart, and the
difference is logged as `eval/generalization_gap`.
"""

from __future__ import annotations

from rl.hparams.ddpg import DDPGHParams, ddpg
from rl.hparams.hparams import HParams
from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import register


def procgen(hparams: HParams, env: str, levels: int) -> None:
    """What sets on Procgen share."""
    hparams.env = env
    hparams.env_kwargs = {"distribution_mode": "easy"}
    hparams.train_env_kwargs = {"num_levels": levels, "start_level": 0}
    hparams.train_steps = 25_000_000
    hparams.eval_period = 500_000
    hparams.log_period = 20_000
    hparams.model.name = "impala_cnn"
    hparams.model.hidden = (256,)
    hparams.model.activation = "relu"
    hparams.model.init = "glorot_uniform"  # orthogonal layers of gain sqrt 2 blow up along residual blocks


@register
def ppo_procgen() -> PPOHParams:
    """PPO on 200 easy levels of StarPilot, or of the game given by --env (Cobbe et al. 2020, appendix D)."""
    hparams = PPOHParams()
    procgen(hparams, "starpilot", 200)
    hparams.num_envs = 64
    hparams.rollout_length = 256
    hparams.lr = 5e-4
    hparams.gamma = 0.999
    hparams.epochs = 3
    hparams.minibatches = 8
    hparams.entropy_coef = 0.01
    hparams.clip_value_range = 0.2
    hparams.normalize_reward = True
    hparams.model.shared = True
    return hparams


@register
def ppo_coinrun() -> PPOHParams:
    """PPO on 100 easy levels of CoinRun."""
    hparams = ppo_procgen()
    procgen(hparams, "coinrun", 100)
    return hparams


@register
def ppo_coinrun_small() -> PPOHParams:
    """PPO on 100 easy levels of CoinRun with a plain network, which two cores train within the hour.

    In place of IMPALA's network that of the Nature paper, in bfloat16.
    """
    hparams = ppo_coinrun()
    hparams.train_steps = 3_500_000
    hparams.model.name = "nature_cnn"
    hparams.model.precision = "bfloat16"
    return hparams


@register
def ddpg_coinrun() -> DDPGHParams:
    """DDPG on 100 easy levels of CoinRun, whose actions are discrete: straight-through Gumbel-softmax."""
    hparams = ddpg()
    procgen(hparams, "coinrun", 100)
    hparams.num_envs = 16
    hparams.rollout_length = 4
    hparams.updates_per_iteration = 16
    hparams.batch_size = 64
    hparams.replay_capacity = 200_000
    hparams.min_replay_size = 10_000
    hparams.random_steps = 10_000
    hparams.lr = 1e-4
    return hparams


@register
def ddpg_carracing() -> DDPGHParams:
    """DDPG on CarRacing-v3, from pictures; noise correlated in time."""
    hparams = ddpg()
    hparams.env = "CarRacing-v3"
    hparams.frame_stack = 4
    hparams.train_steps = 1_000_000
    hparams.eval_period = 50_000
    hparams.act_select = "ou_noise"
    hparams.exploration_noise = 0.2
    hparams.num_envs = 8
    hparams.rollout_length = 4
    hparams.updates_per_iteration = 16
    hparams.batch_size = 64
    hparams.replay_capacity = 100_000
    hparams.min_replay_size = 5_000
    hparams.random_steps = 5_000
    hparams.lr = 1e-4
    hparams.model.name = "nature_cnn"
    hparams.model.hidden = (256,)
    return hparams
