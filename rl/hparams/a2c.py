"""Hyperparameters and named sets of A2C (`rl/agents/algos/a2c.py`)."""

from __future__ import annotations

from typing import Literal

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register


class A2CHParams(HParams):
    """A2C for discrete, multi-discrete, multi-binary and continuous actions."""

    algo: str = "a2c"
    rollout_length: PositiveInt = 5
    optimizer: Literal["adam", "adamw", "rmsprop", "sgd"] = "rmsprop"
    lr: PositiveFloat = 7e-4
    max_grad_norm: PositiveFloat | None = 0.5

    entropy_coef: Coefficient = 0.0  # weight of the policy's entropy, which is added
    value_coef: Coefficient = 0.5  # weight of the value loss, half the mean square
    gae_lambda: Fraction = 1.0  # 1: n-step returns, n what is left of the rollout
    normalize_advantage: bool = False  # advantages of a batch get mean 0 and deviation 1
    log_std_init: float = 0.0  # continuous actions: logarithm of the initial standard deviation

    def check(self) -> None:
        """Raises UsageError unless the environments split into equal microbatches."""
        super().check()
        if self.grad_comp == "accumulate" and self.num_envs % self.microbatches:
            raise UsageError(
                f"hparam microbatches={self.microbatches} does not divide num_envs={self.num_envs}"
            )


@register
def a2c() -> A2CHParams:
    """A2C on any environment with discrete or continuous actions: give --env ID."""
    hparams = A2CHParams()
    hparams.normalize_reward = True
    hparams.optimizer = "adam"
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.value_coef = 1.0  # of half the square
    hparams.gae_lambda = 0.95
    return hparams


@register
def a2c_cartpole() -> A2CHParams:
    """A2C on CartPole-v1."""
    hparams = A2CHParams()
    hparams.env = "CartPole-v1"
    hparams.normalize_reward = True
    hparams.train_steps = 500_000
    hparams.eval_period = 50_000
    hparams.num_envs = 16
    hparams.rollout_length = 16
    hparams.optimizer = "adam"
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.gae_lambda = 0.95
    hparams.entropy_coef = 0.01
    hparams.normalize_advantage = True
    return hparams


@register
def a2c_pendulum() -> A2CHParams:
    """A2C on Pendulum-v1."""
    hparams = A2CHParams()
    hparams.env = "Pendulum-v1"
    hparams.normalize_reward = True
    hparams.train_steps = 1_000_000
    hparams.eval_period = 100_000
    hparams.num_envs = 8
    hparams.rollout_length = 32
    hparams.gamma = 0.95
    hparams.optimizer = "adam"
    hparams.lr = 2e-3
    hparams.lr_schedule = "linear"
    hparams.gae_lambda = 0.9
    hparams.normalize_advantage = True
    hparams.log_std_init = 1.0
    return hparams


@register
def a2c_acrobot() -> A2CHParams:
    """A2C on Acrobot-v1."""
    hparams = A2CHParams()
    hparams.env = "Acrobot-v1"
    hparams.normalize_observation = True
    hparams.train_steps = 500_000
    hparams.eval_period = 50_000
    hparams.num_envs = 32
    hparams.rollout_length = 16
    hparams.optimizer = "adam"
    hparams.lr = 4e-3  # higher rates, or fewer environments, never solve it with some seeds
    hparams.lr_schedule = "linear"
    hparams.gae_lambda = 0.95
    hparams.normalize_advantage = True
    return hparams


@register
def a2c_cartpole_no_velocity() -> A2CHParams:
    """Recurrent A2C on CartPole without velocities: what is not seen has to be remembered."""
    hparams = a2c_cartpole()
    hparams.env = "CartPoleNoVel-v1"
    hparams.lr = 3e-3
    hparams.entropy_coef = 0.0
    hparams.model.name = "lstm"
    hparams.model.hidden = (64,)
    hparams.train_steps = 1_000_000
    hparams.eval_period = 100_000
    hparams.rollout_length = 32
    return hparams


@register
def a2c_identity() -> A2CHParams:
    """A2C on Identity-v0: the smallest test that anything is learned."""
    hparams = A2CHParams()
    hparams.env = "Identity-v0"
    hparams.train_steps = 8_192
    hparams.num_envs = 8
    hparams.rollout_length = 8
    hparams.gamma = 0.0
    hparams.optimizer = "adam"
    hparams.lr = 1e-2
    hparams.log_period = 1_000
    return hparams
