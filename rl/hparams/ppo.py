"""Hyperparameters and named sets of PPO (`rl/agents/algos/ppo.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class PPOHParams(HParams):
    """PPO for discrete, multi-discrete and continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "rollout_length": "[32,64,128,256,512]",
        "epochs": "1:20",
        "minibatches": "[1,2,4,8,16,32]",
        "clip_range": "0.1:0.4",
        "entropy_coef": "log:1e-5:0.1",
        "gae_lambda": "0.8:1.0",
        "max_grad_norm": "log:0.3:5.0",
    }

    anneals: ClassVar[tuple[str, ...]] = ("clip_range", "clip_value_range", "entropy_coef")
    algo: str = "ppo"
    rollout_length: PositiveInt = 128
    max_grad_norm: PositiveFloat | None = 0.5

    epochs: PositiveInt = 4  # passes over each rollout
    minibatches: PositiveInt = 4  # per epoch; of a recurrent model groups of environments
    clip_range: PositiveFloat = 0.2  # of the policy ratio around 1
    clip_value_range: PositiveFloat | None = None  # of the value around its old one; None: not clipped
    entropy_coef: Coefficient = 0.0  # weight of the policy's entropy, which is added
    value_coef: Coefficient = 0.5  # weight of the value loss, half the mean square
    gae_lambda: Fraction = 0.95  # generalised advantage estimation's lambda (Schulman et al. 2016)
    normalize_advantage: bool = True  # advantages of a batch get mean 0 and deviation 1
    target_kl: PositiveFloat | None = None  # a rollout's updates stop above 1.5 times it; None: never
    log_std_init: float = 0.0  # continuous actions: logarithm of the initial standard deviation

    def check(self) -> None:
        """Raises UsageError unless the rollout splits into equal minibatches."""
        super().check()
        check_minibatches(self)


def check_minibatches(hparams: Any) -> None:
    """Raises UsageError unless rollouts split into equal minibatches, of the run or of a device's part."""
    size = hparams.num_envs * hparams.rollout_length
    if size % hparams.minibatches:
        raise UsageError(
            f"hparam minibatches={hparams.minibatches} does not divide "
            f"num_envs * rollout_length = {hparams.num_envs} * {hparams.rollout_length} = {size}: "
            "change one of the three"
        )


CARTPOLE = dict(
    ROLLOUT["CartPole-v1"],
    train_steps=100_000,
    eval_period=25_000,
    num_envs=8,
    rollout_length=32,
    lr=1e-3,
    lr_schedule="linear",
    gae_lambda=0.8,
    gamma=0.98,
    epochs=5,
    minibatches=2,
    sync_workers=True,  # with workers it is PPO still: rollouts are by the newest policy
)


@register
def ppo() -> PPOHParams:
    """PPO on any environment with discrete or continuous actions: give --env ID."""
    return PPOHParams.of(
        rollout_length=32,
        epochs=10,
        lr=6e-4,
        lr_schedule="linear",
        value_coef=1.0,  # of half the square
        entropy_coef=0.01,  # without it and a falling lr one CliffWalking in three ends up standing still
        normalize_reward=True,  # of any size: without it Taxi, where -10 is usual, brings -27 in place of 1
    )


@register
def ppo_cartpole() -> PPOHParams:
    """PPO on CartPole-v1."""
    return PPOHParams.of(CARTPOLE)


@register
def ppo_multi_cartpole() -> PPOHParams:
    """PPO on MultiCartPole-v0, four poles and one policy."""
    return ppo_cartpole(env="MultiCartPole-v0", train_steps=200_000, eval_period=50_000)


@register
def ppo_mountaincar() -> PPOHParams:
    """PPO on MountainCar-v0, shaped reward in training."""
    return PPOHParams.of(
        ROLLOUT["MountainCar-v0"],
        num_envs=16,
        rollout_length=64,
        lr=1e-3,
        lr_schedule="linear",
        gae_lambda=0.98,
        epochs=10,
        minibatches=4,
    )


@register
def ppo_pendulum() -> PPOHParams:
    """PPO on Pendulum-v1."""
    return PPOHParams.of(
        ROLLOUT["Pendulum-v1"],
        train_steps=100_000,
        eval_period=50_000,
        num_envs=8,
        rollout_length=256,
        lr=1e-3,
        lr_schedule="linear",
        epochs=10,
        minibatches=16,
    )


@register
def ppo_acrobot() -> PPOHParams:
    """PPO on Acrobot-v1."""
    return PPOHParams.of(
        ROLLOUT["Acrobot-v1"],
        train_steps=999_424,  # whole rollouts
        eval_period=200_000,
        num_envs=16,
        rollout_length=256,
        lr=3e-3,
        lr_schedule="linear",
        gae_lambda=0.94,
        epochs=4,
        minibatches=16,
    )


@register
def ppo_mountaincar_continuous() -> PPOHParams:
    """PPO on MountainCarContinuous-v0, shaped reward in training."""
    return PPOHParams.of(
        env="MountainCarContinuous-v0",
        reward_augmentation="mountain_car_default",
        normalize_observation=True,
        normalize_reward=True,
        train_steps=19_968,  # whole rollouts, within 20,000
        eval_period=5_000,
        num_envs=4,
        rollout_length=64,
        epochs=10,
        minibatches=8,
        lr=1e-3,
        lr_schedule="linear",
        entropy_coef=0.004,
    )


@register
def ppo_cartpole_no_velocity() -> PPOHParams:
    """Recurrent PPO on CartPole without velocities: what is not seen has to be remembered."""
    return PPOHParams.of(
        ROLLOUT["CartPoleNoVel-v1"],
        normalize_observation=True,
        normalize_reward=True,
        train_steps=100_000,
        eval_period=10_000,
        num_envs=16,
        rollout_length=64,
        lr=1e-3,
        lr_schedule="linear",
        gae_lambda=0.95,
        gamma=0.98,
        epochs=10,
        minibatches=2,
        model=dict(name="lstm", hidden=(64,)),
    )


@register
def ppo_pendulum_no_velocity() -> PPOHParams:
    """Recurrent PPO on Pendulum without velocities."""
    return PPOHParams.of(
        env="PendulumNoVel-v1",
        normalize_reward=True,
        train_steps=100_000,
        eval_period=10_000,
        num_envs=8,
        rollout_length=128,
        gamma=0.9,
        lr=2e-3,
        lr_schedule="linear",
        epochs=10,
        minibatches=4,
        model=dict(name="lstm"),
    )


@register
def ppo_lunarlander() -> PPOHParams:
    """PPO on LunarLander-v3."""
    return PPOHParams.of(
        ROLLOUT["LunarLander-v3"],
        normalize_observation=True,
        normalize_reward=True,
        num_envs=16,
        rollout_length=512,
        gae_lambda=0.98,
        entropy_coef=0.003,
        lr=6e-4,
        lr_schedule="linear",
        epochs=6,
        minibatches=64,
    )


@register
def ppo_lunarlander_continuous() -> PPOHParams:
    """PPO on LunarLanderContinuous-v3: as on LunarLander-v3, but for the weight of the value."""
    return PPOHParams.of(
        ROLLOUT["LunarLanderContinuous-v3"],
        normalize_observation=True,
        normalize_reward=True,
        value_coef=1.0,  # of half the square
        num_envs=16,
        rollout_length=512,
        gae_lambda=0.98,
        entropy_coef=0.003,
        lr=6e-4,
        lr_schedule="linear",
        epochs=6,
        minibatches=64,
    )


@register
def ppo_bipedalwalker() -> PPOHParams:
    """PPO on BipedalWalker-v3 (rl-baselines3-zoo's settings)."""
    return PPOHParams.of(
        env="BipedalWalker-v3",
        value_coef=1.0,  # zoo's 0.5 of the whole square
        normalize_observation=True,
        normalize_reward=True,
        train_steps=4_980_736,  # 76 whole iterations, within zoo's 5 million steps
        eval_period=500_000,
        num_envs=32,
        rollout_length=2_048,
        gamma=0.999,
        clip_range=0.18,
        epochs=10,
        minibatches=1_024,
    )


MUJOCO = dict(  # common to rl-baselines3-zoo's settings for MuJoCo
    normalize_observation=True,
    normalize_reward=True,
    train_steps=1_000_000,
    eval_period=100_000,
    num_envs=1,
    rollout_length=512,
    log_std_init=-2.0,
    model=dict(hidden=(256, 256), activation="relu", init="torch"),  # zoo's ortho_init=False: PyTorch's own
)


@register
def ppo_halfcheetah() -> PPOHParams:
    """PPO on HalfCheetah-v5 (rl-baselines3-zoo's settings)."""
    return PPOHParams.of(
        MUJOCO,
        env="HalfCheetah-v5",
        gamma=0.98,
        gae_lambda=0.92,
        lr=2.0633e-5,
        clip_range=0.1,
        entropy_coef=0.000401762,
        value_coef=1.16192,  # zoo's 0.58096 of the whole square is twice that of its half
        max_grad_norm=0.8,
        epochs=20,
        minibatches=8,
    )


CLEANRL = MUJOCO | dict(  # CleanRL's settings for MuJoCo, but for value_coef
    rollout_length=2_048,
    lr=3e-4,
    lr_schedule="linear",
    value_coef=1.0,
    max_grad_norm=0.5,
    epochs=10,
    minibatches=32,
    log_std_init=0.0,
    model=dict(hidden=(64, 64), activation="tanh", init="orthogonal"),
)


@register
def ppo_hopper() -> PPOHParams:
    """PPO on Hopper-v5 (CleanRL's settings for MuJoCo, but for value_coef).

    With rl-baselines3-zoo's it learned to stand still: 992.0 on seed 100, after as many steps.
    """
    return PPOHParams.of(CLEANRL, env="Hopper-v5")


@register
def ppo_walker2d() -> PPOHParams:
    """PPO on Walker2d-v5 (CleanRL's settings for MuJoCo, but for value_coef)."""
    return PPOHParams.of(CLEANRL, env="Walker2d-v5")


@register
def ppo_catch() -> PPOHParams:
    """PPO on Catch-v0: a test of learning from images that takes seconds."""
    return PPOHParams.of(
        env="Catch-v0", train_steps=40_000, num_envs=16, rollout_length=32, lr=2.5e-3, entropy_coef=0.01
    )


@register
def ppo_identity() -> PPOHParams:
    """PPO on Identity-v0: the smallest test that anything is learned."""
    return PPOHParams.of(ROLLOUT["Identity-v0"], rollout_length=32, lr=3e-3)


@register
def ppo_tictactoe_selfplay() -> PPOHParams:
    """PPO on TicTacToe-v0 by self-play, evaluated against a perfect player."""
    return PPOHParams.of(
        env="TicTacToe-v0",
        env_kwargs=dict(opponent="perfect"),
        train_env_kwargs=dict(opponent="league", opening=8),
        league=dict(size=4, period=100_000, also_against=("random",)),
        train_steps=4_194_304,
        eval_period=524_288,
        log_period=65_536,
        gamma=1.0,
        num_envs=128,
        rollout_length=32,
        lr=1e-3,
        lr_schedule="linear",
        entropy_coef=0.15,
        minibatches=8,
    )


CONNECT_FOUR: dict[str, Any] = dict(  # a network for its board
    name="board_cnn", filters=(64,), part_hidden=(64,), hidden=(128,), activation="relu", shared=True
)


@register
def ppo_connect_four_selfplay() -> PPOHParams:
    """PPO on ConnectFour-v0 by self-play, evaluated against a tree search of 100 playouts."""
    return PPOHParams.of(
        env="ConnectFour-v0",
        env_kwargs=dict(opponent="uct_100"),
        train_env_kwargs=dict(opponent="league", opening=8),
        league=dict(size=4, period=500_000, also_against=("random",)),
        train_steps=25_165_824,
        eval_period=2_097_152,
        log_period=262_144,
        gamma=1.0,
        num_envs=256,
        rollout_length=64,
        lr=1e-3,
        lr_schedule="linear",
        entropy_coef=0.05,
        epochs=2,
        minibatches=16,
        model=CONNECT_FOUR,
    )
