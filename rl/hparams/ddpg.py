"""Hyperparameters and named sets of DDPG (`rl/agents/algos/ddpg.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from rl.hparams.hparams import Coefficient, Count, Fraction, PositiveFloat, PositiveInt
from rl.hparams.registry import register
from rl.hparams.replayed import ReplayedHParams
from rl.hparams.tasks import REPLAY


class ActorCriticReplayHParams(ReplayedHParams):
    """What DDPG, TD3 and SAC share: a replay memory, an actor, critics and their targets."""

    searched: ClassVar[dict[str, str]] = {
        "critic_lr": "log:1e-5:1e-2",
        "batch_size": "[64,128,256,512]",
        "tau": "log:0.001:0.05",
    }

    memory: str = "uniform"
    adam_epsilon: PositiveFloat = 1e-8

    critic_lr: PositiveFloat | None = None  # learning rate of the critic; None: lr, which is the actor's
    replay_capacity: PositiveInt = 100_000  # transitions in total
    min_replay_size: PositiveInt = 1_000  # transitions before the first update
    random_steps: Count = 1_000  # environment steps at the start with uniformly random actions
    batch_size: PositiveInt = 256  # transitions of an update
    updates_per_iteration: PositiveInt = 64  # gradient updates after each rollout
    n_step: PositiveInt = 1  # rewards summed before the bootstrap value
    tau: float = Field(default=0.005, gt=0, le=1)  # target <- tau * online + (1 - tau) * target
    prioritized: bool = False  # samples by priority (https://arxiv.org/abs/1511.05952)
    priority_exponent: Fraction = 0.6  # alpha of prioritized sampling; 0: uniform
    importance_sampling_exponent: Fraction = 0.4  # beta of prioritized sampling at the start, linear
    importance_sampling_exponent_end: Fraction = 1.0  # beta at the end of training
    priority_epsilon: PositiveFloat = 1e-6  # added to every priority, so that none is 0

    def check(self) -> None:
        """Raises UsageError where replay sizes do not fit together."""
        super().check()
        self.check_replay()


class DDPGHParams(ActorCriticReplayHParams):
    """DDPG for bounded continuous actions, and for discrete ones by Gumbel-softmax."""

    searched: ClassVar[dict[str, str]] = {
        "exploration_noise": "0.05:0.5",
    }

    anneals: ClassVar[tuple[str, ...]] = ("exploration_noise",)
    algo: str = "ddpg"
    act_select: str = "gaussian_noise"

    exploration_noise: Coefficient = 0.1  # standard deviation, in half ranges of the action space
    ou_theta: Fraction = 0.15  # act_select=ou_noise: pull of the noise towards 0 in every step
    gumbel_temperature: PositiveFloat = 1.0  # discrete actions: of the relaxed sample's gradient
    logit_penalty: Coefficient = 0.01  # discrete: weight of the logits' mean square, against early certainty


def small_networks(*hidden: int) -> dict[str, Any]:
    """Returns the shape of network that these algorithms were published with."""
    return dict(model=dict(hidden=hidden, activation="relu", init="torch"))


def one_update_per_step(num_envs: int, rollout_length: int) -> dict[str, Any]:
    """Returns rollouts that are followed by as many updates as they have steps."""
    return dict(
        num_envs=num_envs, rollout_length=rollout_length, updates_per_iteration=num_envs * rollout_length
    )


# What DDPG, TD3 and SAC share of a task beside its entry in the table.

# Published for a million steps of the MuJoCo environments, whatever the algorithm. The paper's one update
# after every step is 50 updates after 50 steps, compiled into one call.
MUJOCO = dict(
    small_networks(256, 256) | one_update_per_step(1, 50),
    replay_capacity=1_000_000,
    min_replay_size=10_000,
    random_steps=10_000,
    batch_size=256,
    gamma=0.99,
    tau=0.005,
    lr=3e-4,
)
LUNARLANDER_CONTINUOUS = dict(
    REPLAY["LunarLanderContinuous-v3"],
    replay_capacity=200_000,
    min_replay_size=5_000,
    random_steps=5_000,
    num_envs=8,
    rollout_length=16,
    updates_per_iteration=64,
    batch_size=128,
    model=dict(hidden=(128, 128)),
)
PENDULUM = dict(
    REPLAY["Pendulum-v1"] | small_networks(64, 64),
    gamma=0.99,
    tau=0.01,
    lr=1e-3,
    lr_schedule="linear",
    num_envs=4,
    rollout_length=8,
    updates_per_iteration=64,
)
BIPEDALWALKER = dict(
    REPLAY["BipedalWalker-v3"] | small_networks(400, 300) | one_update_per_step(1, 64),
    min_replay_size=10_000,
    random_steps=10_000,
)
MOUNTAINCAR_CONTINUOUS = dict(
    REPLAY["MountainCarContinuous-v0"] | small_networks(64, 64),
    lr=1e-3,
    lr_schedule="linear",
    num_envs=4,
    rollout_length=16,
    updates_per_iteration=32,
)
IDENTITY = dict(
    REPLAY["Identity-v0"] | small_networks(32, 32),
    lr=3e-3,
    replay_capacity=4_000,
    random_steps=200,
    batch_size=64,
    updates_per_iteration=8,
)


@register
def ddpg() -> DDPGHParams:
    """DDPG on any environment with bounded continuous or discrete actions: give --env ID."""
    return DDPGHParams.of(small_networks(256, 256), one_update_per_step(8, 8))


@register
def ddpg_pendulum() -> DDPGHParams:
    """DDPG on Pendulum-v1."""
    return ddpg(PENDULUM)


@register
def ddpg_mountaincar_continuous() -> DDPGHParams:
    """DDPG on MountainCarContinuous-v0: noise correlated in time, shaped reward in training."""
    return ddpg(MOUNTAINCAR_CONTINUOUS, train_steps=150_000, act_select="ou_noise", exploration_noise=0.3)


@register
def ddpg_cartpole() -> DDPGHParams:
    """DDPG with 10-step returns on CartPole-v1: discrete actions."""
    return ddpg(
        REPLAY["CartPole-v1"],
        small_networks(128, 128),
        train_steps=200_000,
        eval_period=5_000,
        lr=1e-3,
        lr_schedule="linear",
        batch_size=128,
        num_envs=8,
        rollout_length=8,
        updates_per_iteration=32,
        n_step=10,
        tau=0.02,
    )


@register
def ddpg_mountaincar() -> DDPGHParams:
    """DDPG, prioritized, 10-step returns, on MountainCar-v0: discrete actions, shaped reward."""
    return ddpg(
        REPLAY["MountainCar-v0"],
        small_networks(128, 128),
        reward_augmentation="mountain_car_energy",
        act_select="ou_noise",
        exploration_noise=1.0,  # on the logits
        ou_theta=0.03,
        random_steps=0,
        train_steps=400_000,
        eval_period=20_000,
        lr=1e-3,
        lr_schedule="linear",
        num_envs=8,
        rollout_length=16,
        updates_per_iteration=64,
        n_step=10,
        tau=0.02,
        batch_size=128,
        prioritized=True,
        logit_penalty=0.1,
    )


@register
def ddpg_lunarlander_continuous() -> DDPGHParams:
    """DDPG with 3-step returns and layer normalisation on LunarLanderContinuous-v3."""
    return ddpg(
        LUNARLANDER_CONTINUOUS,
        train_steps=200_000,
        lr=1e-3,
        n_step=3,
        exploration_noise=0.2,
        model=dict(layer_norm=True),
    )


@register
def ddpg_halfcheetah() -> DDPGHParams:
    """DDPG on HalfCheetah-v5, with the networks, batches and learning rate of this project's TD3."""
    return ddpg(REPLAY["HalfCheetah-v5"], MUJOCO)


@register
def ddpg_hopper() -> DDPGHParams:
    """DDPG on Hopper-v5, with the networks, batches and learning rate of this project's TD3."""
    return ddpg(REPLAY["Hopper-v5"], MUJOCO)


@register
def ddpg_walker2d() -> DDPGHParams:
    """DDPG on Walker2d-v5, with the networks, batches and learning rate of this project's TD3."""
    return ddpg(REPLAY["Walker2d-v5"], MUJOCO)


@register
def ddpg_identity() -> DDPGHParams:
    """DDPG on Identity-v0: the smallest test that anything is learned."""
    return ddpg(IDENTITY)
