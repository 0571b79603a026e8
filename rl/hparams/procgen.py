"""Named sets on pictures in colour: Procgen's games, CoinRun among them, and CarRacing.

Procgen draws its levels at random (Cobbe et al. 2020, https://arxiv.org/abs/1912.01588): training has
`num_levels` of them from `start_level` on, evaluation all; the levels trained on are evaluated apart, and the
difference is logged as `eval/generalization_gap`.
"""

from __future__ import annotations

from typing import Any

from rl.hparams.ddpg import DDPGHParams, ddpg
from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import register


def procgen(env: str, levels: int) -> dict[str, Any]:
    """Returns what sets on Procgen share: `levels` of a game to train on."""
    return dict(
        env=env,
        env_kwargs={"distribution_mode": "easy"},
        train_env_kwargs={"num_levels": levels, "start_level": 0},
        train_steps=25_000_000,
        eval_period=500_000,
        log_period=20_000,
        model=dict(
            name="impala_cnn",
            hidden=(256,),
            activation="relu",
            precision="auto",
            init="glorot_uniform",  # orthogonal layers of gain sqrt 2 blow up along residual blocks
        ),
    )


@register
def ppo_procgen() -> PPOHParams:
    """PPO on 200 easy levels of StarPilot, or of the game given by --env (Cobbe et al. 2020, appendix D)."""
    return PPOHParams.of(
        procgen("starpilot", 200),
        num_envs=64,
        rollout_length=256,
        lr=5e-4,
        gamma=0.999,
        epochs=3,
        minibatches=8,
        entropy_coef=0.01,
        clip_value_range=0.2,
        normalize_reward=True,
        model=dict(shared=True),
    )


@register
def ppo_coinrun() -> PPOHParams:
    """PPO on 100 easy levels of CoinRun."""
    return ppo_procgen(procgen("coinrun", 100))


@register
def ppo_coinrun_small() -> PPOHParams:
    """PPO on 100 easy levels of CoinRun with a plain network, which two cores train within the hour.

    In place of IMPALA's network that of the Nature paper.
    """
    return ppo_coinrun(train_steps=3_500_000, model=dict(name="nature_cnn"))


@register
def ddpg_coinrun() -> DDPGHParams:
    """DDPG on 100 easy levels of CoinRun, whose actions are discrete: straight-through Gumbel-softmax."""
    return ddpg(
        procgen("coinrun", 100),
        num_envs=16,
        rollout_length=4,
        updates_per_iteration=16,
        batch_size=64,
        replay_capacity=200_000,
        min_replay_size=10_000,
        random_steps=10_000,
        lr=1e-4,
    )


@register
def ddpg_carracing() -> DDPGHParams:
    """DDPG on CarRacing-v3, from pictures; noise correlated in time."""
    return ddpg(
        env="CarRacing-v3",
        frame_stack=4,
        train_steps=1_000_000,
        eval_period=50_000,
        act_select="ou_noise",
        exploration_noise=0.2,
        num_envs=8,
        rollout_length=4,
        updates_per_iteration=16,
        batch_size=64,
        replay_capacity=100_000,
        min_replay_size=5_000,
        random_steps=5_000,
        lr=1e-4,
        model=dict(name="nature_cnn", hidden=(256,), precision="auto"),
    )
