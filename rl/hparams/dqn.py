"""Hyperparameters and named sets of DQN (`rl/agents/algos/dqn.py`)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from rl.hparams.exploration import EpsilonHParams
from rl.hparams.hparams import (
    Coefficient,
    Count,
    Fraction,
    PositiveFloat,
    PositiveInt,
    refuse_contradiction,
)
from rl.hparams.registry import register
from rl.hparams.replayed import ReplayedHParams
from rl.hparams.tasks import REPLAY


class DQNHParams(EpsilonHParams, ReplayedHParams):
    """DQN with its switches: double, dueling, noisy, n-step and prioritized are independent of each other."""

    searched: ClassVar[dict[str, str]] = {
        "batch_size": "[32,64,128,256]",
        "n_step": "1:10",
        "target_update_period": "log:50:5000",
        "exploration_epsilon_end": "0.005:0.1",
    }

    algo: str = "dqn"
    memory: str = "uniform"
    act_select: str = "epsilon_greedy"
    lr: PositiveFloat = 1e-3

    replay_capacity: PositiveInt = 100_000  # transitions in total
    min_replay_size: PositiveInt = 1_000  # transitions before the first update
    batch_size: PositiveInt = 128  # transitions (r2d2: sequences) of an update
    updates_per_iteration: PositiveInt = 1  # gradient updates after each rollout
    n_step: PositiveInt = 1  # rewards summed before the bootstrap value (https://arxiv.org/abs/1710.02298)
    double: bool = False  # the online network chooses the next action (https://arxiv.org/abs/1509.06461)
    dueling: bool = False  # value and advantages have layers of their own (https://arxiv.org/abs/1511.06581)
    noisy: bool = False  # noisy layers explore in place of epsilon (https://arxiv.org/abs/1706.10295)
    noisy_sigma: Coefficient = 0.5  # initial standard deviation, divided by sqrt(inputs) of the layer
    prioritized: bool = False  # samples by priority (https://arxiv.org/abs/1511.05952)
    priority_exponent: Fraction = 0.6  # alpha of prioritized sampling; 0: uniform
    importance_sampling_exponent: Fraction = 0.4  # beta of prioritized sampling at the start, linear
    importance_sampling_exponent_end: Fraction = 1.0  # beta at the end of training
    priority_epsilon: PositiveFloat = 1e-6  # added to every priority, so that none is 0
    loss: Literal["huber", "mse"] = "huber"  # loss of the action values' errors
    huber_delta: PositiveFloat = 1.0  # where the huber loss turns from square to linear
    target_update_period: PositiveInt = 500  # gradient updates between two updates of the target network
    tau: float = Field(default=1.0, gt=0, le=1)  # target <- tau * online + (1 - tau) * target; 1: copy
    # act_select=per_worker_epsilon: environment i of N explores with base^(1 + exponent i / (N - 1))
    exploration_epsilon_base: Annotated[float, Field(gt=0, le=1)] = 0.4
    exploration_epsilon_exponent: Coefficient = 7.0  # exponent in exploration_epsilon_base's formula
    random_steps: Count = 0  # environment steps at the start with uniformly random actions

    @property
    def act_select_name(self) -> str:
        """Returns `greedy` where noisy layers explore in place of epsilon, else `act_select`."""
        return "greedy" if self.noisy and self.act_select == "epsilon_greedy" else self.act_select

    def check(self) -> None:
        """Raises UsageError where replay sizes or switches do not fit together."""
        super().check()
        refuse_contradiction(self, "act_select", "epsilon_greedy", "noisy", True)
        self.check_replay()


# What DQN and its kin share, in the order in which sets name them; a set says what it has otherwise.
DENSE: dict[str, Any] = dict(model=dict(activation="relu", init="lecun_uniform"))  # suits action values
SHARED: dict[str, Any] = dict(
    double=True,
    lr_schedule="linear",
    num_envs=8,
    max_grad_norm=10.0,
    model=dict(hidden=(128, 128), activation="relu", init="lecun_uniform"),
)
ANY_ENVIRONMENT = dict(  # an update for every second step
    SHARED, lr=1e-3, n_step=3, rollout_length=8, updates_per_iteration=32, target_update_period=250
)
TUNED = dict(SHARED, batch_size=128, min_replay_size=1_000)
CARTPOLE = dict(
    REPLAY["CartPole-v1"] | TUNED,
    lr=2e-3,
    n_step=10,
    replay_capacity=100_000,
    rollout_length=32,
    updates_per_iteration=128,
    target_update_period=128,
    exploration_steps=8_000,
    exploration_epsilon_end=0.04,
)
ACROBOT = dict(
    REPLAY["Acrobot-v1"] | TUNED,
    lr=1e-3,
    n_step=5,
    replay_capacity=50_000,
    rollout_length=32,
    updates_per_iteration=128,
    target_update_period=128,
    exploration_steps=12_000,
    exploration_epsilon_end=0.04,
)
MOUNTAINCAR = dict(
    REPLAY["MountainCar-v0"] | TUNED,
    lr=4e-3,
    n_step=5,
    replay_capacity=10_000,
    rollout_length=16,
    updates_per_iteration=64,
    target_update_period=192,
    exploration_steps=24_000,
    exploration_epsilon_end=0.07,
)
LUNARLANDER = dict(
    REPLAY["LunarLander-v3"] | TUNED,
    lr=7e-4,
    n_step=3,
    replay_capacity=100_000,
    rollout_length=16,
    updates_per_iteration=128,
    target_update_period=500,
    exploration_steps=12_000,
    exploration_epsilon_end=0.04,
    model=SHARED["model"] | dict(layer_norm=True),
)
IDENTITY = dict(
    REPLAY["Identity-v0"] | DENSE,
    replay_capacity=2_000,
    batch_size=64,
    updates_per_iteration=4,
    target_update_period=50,
    exploration_steps=2_000,
)

# As in Rashid et al. 2018, section 5, actions are uniformly random throughout.
TWO_STEP = dict(
    DENSE,
    env="TwoStepGame-v0",
    double=True,
    train_steps=20_000,
    eval_period=5_000,
    log_period=2_000,
    gamma=0.99,
    num_envs=8,
    rollout_length=4,
    lr=1e-3,
    updates_per_iteration=4,
    replay_capacity=4_000,
    min_replay_size=256,
    batch_size=64,
    target_update_period=50,
    exploration_epsilon_end=1.0,
)


@register
def dqn() -> DQNHParams:
    """Double DQN with 3-step returns on any environment with discrete actions: give --env ID."""
    return DQNHParams.of(ANY_ENVIRONMENT)


@register
def dqn_cartpole() -> DQNHParams:
    """Double DQN with 10-step returns on CartPole-v1."""
    return DQNHParams.of(CARTPOLE)


@register
def dqn_mountaincar() -> DQNHParams:
    """Double DQN with 5-step returns on MountainCar-v0."""
    return DQNHParams.of(MOUNTAINCAR, lr=2e-3, updates_per_iteration=128, target_update_period=256)


@register
def dqn_acrobot() -> DQNHParams:
    """Double dueling DQN with 5-step returns and priorities on Acrobot-v1."""
    # Without dueling and priorities -80.9 on average.
    return DQNHParams.of(ACROBOT, dueling=True, prioritized=True, eval_period=10_000)


@register
def dqn_lunarlander() -> DQNHParams:
    """Double DQN with 3-step returns and layer normalisation on LunarLander-v3."""
    return DQNHParams.of(LUNARLANDER)


@register
def dqn_linear_bandit() -> DQNHParams:
    """DQN without a future on LinearBandit-v0: epsilon-greedy, by a network of expected rewards."""
    return DQNHParams.of(
        DENSE,
        env="LinearBandit-v0",
        gamma=0.0,
        train_steps=20_000,
        log_period=1_000,
        num_envs=1,
        rollout_length=8,
        updates_per_iteration=4,
        min_replay_size=100,
        exploration_steps=4_000,
        exploration_epsilon_end=0.05,
    )


@register
def noisy_dqn_cartpole() -> DQNHParams:
    """Double noisy DQN with 10-step returns and layer normalisation on CartPole-v1."""
    return dqn_cartpole(
        train_steps=300_000,  # noise explores more slowly than random actions here
        noisy=True,
        random_steps=1_000,  # without them some seeds never try the other action
        model=dict(layer_norm=True),
    )


@register
def dqn_catch() -> DQNHParams:
    """Double DQN on Catch-v0: a test of learning from images that takes seconds."""
    return DQNHParams.of(
        DENSE,
        env="Catch-v0",
        double=True,
        train_steps=20_000,
        replay_capacity=10_000,
        min_replay_size=500,
        batch_size=64,
        num_envs=8,
        rollout_length=4,
        updates_per_iteration=8,
        target_update_period=100,
        exploration_steps=8_000,
    )


@register
def dqn_identity() -> DQNHParams:
    """Double DQN on Identity-v0: the smallest test that anything is learned."""
    return DQNHParams.of(IDENTITY, double=True)


@register
def dqn_two_state_chain() -> DQNHParams:
    """Double DQN on TwoStateChain-v0: a test against action values that are known exactly."""
    return DQNHParams.of(
        DENSE,
        env="TwoStateChain-v0",
        double=True,
        train_steps=16_000,
        gamma=0.9,
        replay_capacity=4_000,
        min_replay_size=200,
        batch_size=64,
        num_envs=8,
        rollout_length=4,
        updates_per_iteration=8,
        target_update_period=50,
        exploration_epsilon_end=0.5,
        exploration_steps=4_000,
        log_period=1_000,
    )


@register
def iql_two_step() -> DQNHParams:
    """Independent double Q-learning (DQN of shared weights) on TwoStepGame-v0; not the `iql` of data.

    It takes the safe 7, not 8: 7.0 with each of the seeds 100 to 102, last checkpoint.
    """
    return DQNHParams.of(TWO_STEP)
