"""Hyperparameters and named sets of DDPG (`rl/agents/algos/ddpg.py`)."""

from __future__ import annotations

from pydantic import Field

from rl.errors import UsageError
from rl.hparams.hparams import (
    Coefficient,
    Count,
    Fraction,
    HParams,
    PositiveFloat,
    PositiveInt,
    refuse_contradiction,
)
from rl.hparams.registry import register


class ActorCriticReplayHParams(HParams):
    """What DDPG, TD3 and SAC share: a replay memory, an actor, critics and their targets."""

    memory: str = "uniform"
    adam_epsilon: PositiveFloat = 1e-8

    critic_lr: PositiveFloat | None = None  # None: lr, which is the actor's
    replay_capacity: PositiveInt = 100_000  # transitions in total
    min_replay_size: PositiveInt = 1_000  # transitions before the first update
    random_steps: Count = 1_000  # environment steps at the start with uniformly random actions
    batch_size: PositiveInt = 256  # transitions of an update
    updates_per_iteration: PositiveInt = 64  # gradient updates after each rollout
    n_step: PositiveInt = 1  # rewards summed before the bootstrap value
    tau: float = Field(default=0.005, gt=0, le=1)  # target <- tau * online + (1 - tau) * target
    prioritized: bool = False  # samples by priority (Schaul et al. 2016)
    priority_exponent: Fraction = 0.6  # alpha of prioritized sampling; 0: uniform
    importance_sampling_exponent: Fraction = 0.4  # at the start, linear over train_steps
    importance_sampling_exponent_end: Fraction = 1.0  # at the end of training
    priority_epsilon: PositiveFloat = 1e-6  # added to every priority, so that none is 0

    @property
    def memory_name(self) -> str:
        """`memory`, but that the switch `prioritized` turns `uniform` into `prioritized`."""
        return "prioritized" if self.prioritized and self.memory == "uniform" else self.memory

    def check(self) -> None:
        """Raises UsageError where replay sizes do not fit together."""
        super().check()
        refuse_contradiction(self, "memory", "prioritized", "prioritized", False)
        if self.memory_name != self.memory:
            refuse_contradiction(self, "memory", "uniform", "prioritized", True)
        if self.min_replay_size > self.replay_capacity:
            raise UsageError(
                f"hparam min_replay_size={self.min_replay_size} is above "
                f"replay_capacity={self.replay_capacity}: learning would never start"
            )


class DDPGHParams(ActorCriticReplayHParams):
    """DDPG for bounded continuous actions, and for discrete ones by Gumbel-softmax."""

    algo: str = "ddpg"
    act_select: str = "gaussian_noise"

    exploration_noise: Coefficient = 0.1  # standard deviation, in half ranges of the action space
    ou_theta: Fraction = 0.15  # act_select=ou_noise: pull of the noise towards 0 in every step
    gumbel_temperature: PositiveFloat = 1.0  # discrete actions: of the relaxed sample's gradient
    logit_penalty: Coefficient = 0.01  # discrete actions: weight of the logits' mean square


def small_networks(hparams: HParams, *hidden: int) -> None:
    """The shape of network that these algorithms were published with."""
    hparams.model.hidden = hidden
    hparams.model.activation = "relu"
    hparams.model.init = "torch"


def one_update_per_step(hparams: ActorCriticReplayHParams, num_envs: int, rollout_length: int) -> None:
    """As many updates after each rollout as it has steps."""
    hparams.num_envs = num_envs
    hparams.rollout_length = rollout_length
    hparams.updates_per_iteration = num_envs * rollout_length


def mujoco(hparams: ActorCriticReplayHParams, env: str) -> None:
    """What is published for a million steps of the MuJoCo environments, whatever the algorithm.

    The paper's one update after every step is 50 updates after 50 steps, compiled into one call.
    """
    hparams.env = env
    hparams.train_steps = 1_000_000
    hparams.eval_period = 10_000
    one_update_per_step(hparams, 1, 50)
    small_networks(hparams, 256, 256)
    hparams.replay_capacity = 1_000_000
    hparams.min_replay_size = 10_000
    hparams.random_steps = 10_000
    hparams.batch_size = 256
    hparams.gamma = 0.99
    hparams.tau = 0.005
    hparams.lr = 3e-4


@register
def ddpg() -> DDPGHParams:
    """DDPG on any environment with bounded continuous or discrete actions: give --env ID."""
    hparams = DDPGHParams()
    small_networks(hparams, 256, 256)
    one_update_per_step(hparams, 8, 8)
    return hparams


@register
def ddpg_pendulum() -> DDPGHParams:
    """DDPG on Pendulum-v1."""
    hparams = ddpg()
    hparams.env = "Pendulum-v1"
    hparams.train_steps = 20_000
    hparams.eval_period = 2_000
    hparams.log_period = 2_000
    hparams.gamma = 0.99
    hparams.tau = 0.01
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    small_networks(hparams, 64, 64)
    hparams.num_envs = 4
    hparams.rollout_length = 8
    hparams.updates_per_iteration = 64
    return hparams


@register
def ddpg_mountaincar_continuous() -> DDPGHParams:
    """DDPG on MountainCarContinuous-v0: noise correlated in time, shaped reward in training."""
    hparams = ddpg()
    hparams.env = "MountainCarContinuous-v0"
    hparams.reward_augmentation = "mountain_car_energy"
    hparams.act_select = "ou_noise"
    hparams.exploration_noise = 0.3
    hparams.train_steps = 50_000
    hparams.eval_period = 5_000
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    small_networks(hparams, 64, 64)
    hparams.num_envs = 4
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 32
    return hparams


@register
def ddpg_cartpole() -> DDPGHParams:
    """DDPG on CartPole-v1: discrete actions."""
    hparams = ddpg()
    hparams.env = "CartPole-v1"
    hparams.train_steps = 200_000
    hparams.eval_period = 5_000
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.batch_size = 128
    small_networks(hparams, 128, 128)
    hparams.num_envs = 8
    hparams.rollout_length = 8
    hparams.updates_per_iteration = 32
    hparams.n_step = 10
    hparams.tau = 0.02
    return hparams


@register
def ddpg_mountaincar() -> DDPGHParams:
    """DDPG on MountainCar-v0: discrete actions, noise correlated in time, shaped reward in training."""
    hparams = ddpg()
    hparams.env = "MountainCar-v0"
    hparams.reward_augmentation = "mountain_car_energy"
    hparams.act_select = "ou_noise"
    hparams.exploration_noise = 1.0  # on the logits
    hparams.ou_theta = 0.03
    hparams.random_steps = 0
    hparams.train_steps = 200_000
    hparams.eval_period = 10_000
    hparams.gamma = 0.98
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    small_networks(hparams, 128, 128)
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 64
    hparams.n_step = 10
    hparams.tau = 0.02
    hparams.batch_size = 128
    hparams.prioritized = True
    hparams.logit_penalty = 0.1
    return hparams


@register
def ddpg_lunarlander_continuous() -> DDPGHParams:
    """DDPG on LunarLanderContinuous-v3."""
    hparams = ddpg()
    hparams.env = "LunarLanderContinuous-v3"
    hparams.train_steps = 200_000
    hparams.eval_period = 25_000
    hparams.lr = 1e-3
    hparams.replay_capacity = 200_000
    hparams.min_replay_size = 5_000
    hparams.random_steps = 5_000
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 64
    hparams.batch_size = 128
    hparams.n_step = 3
    hparams.model.hidden = (128, 128)
    hparams.exploration_noise = 0.2
    return hparams


@register
def ddpg_halfcheetah() -> DDPGHParams:
    """DDPG on HalfCheetah-v5, with the networks, batches and learning rate of this project's TD3."""
    hparams = ddpg()
    mujoco(hparams, "HalfCheetah-v5")
    return hparams


@register
def ddpg_hopper() -> DDPGHParams:
    """DDPG on Hopper-v5, with the networks, batches and learning rate of this project's TD3."""
    hparams = ddpg()
    mujoco(hparams, "Hopper-v5")
    return hparams


@register
def ddpg_walker2d() -> DDPGHParams:
    """DDPG on Walker2d-v5, with the networks, batches and learning rate of this project's TD3."""
    hparams = ddpg()
    mujoco(hparams, "Walker2d-v5")
    return hparams


def identity(hparams: ActorCriticReplayHParams) -> None:
    """The smallest test that anything is learned, whatever the algorithm."""
    hparams.env = "Identity-v0"
    hparams.train_steps = 4_000
    hparams.gamma = 0.0
    hparams.lr = 3e-3
    small_networks(hparams, 32, 32)
    hparams.replay_capacity = 4_000
    hparams.min_replay_size = 100
    hparams.random_steps = 200
    hparams.batch_size = 64
    hparams.num_envs = 8
    hparams.rollout_length = 4
    hparams.updates_per_iteration = 8
    hparams.log_period = 1_000


@register
def ddpg_identity() -> DDPGHParams:
    """DDPG on Identity-v0: the smallest test that anything is learned."""
    hparams = ddpg()
    identity(hparams)
    return hparams
