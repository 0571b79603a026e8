"""Hyperparameters and named sets of IMPALA (`rl/agents/algos/impala.py`)."""

from __future__ import annotations

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Fraction, HParams, PositiveFloat, PositiveInt
from rl.hparams.registry import register


class IMPALAHParams(HParams):
    """IMPALA for discrete, multi-discrete, multi-binary and continuous actions."""

    algo: str = "impala"
    rollout_length: PositiveInt = 20
    max_grad_norm: PositiveFloat | None = 0.5

    epochs: PositiveInt = 2  # passes over each rollout
    minibatches: PositiveInt = 1  # per epoch: groups of environments
    entropy_coef: Coefficient = 0.0  # weight of the policy's entropy, which is added
    value_coef: Coefficient = 0.5  # weight of the value loss, half the mean square
    trace_lambda: Fraction = 1.0  # weight of the trace, as gae_lambda
    rho_clip: PositiveFloat = 1.0  # largest importance ratio in temporal differences
    trace_clip: PositiveFloat = 1.0  # ... in the trace
    advantage_rho_clip: PositiveFloat = 1.0  # ... of the policy gradient
    log_std_init: float = 0.0  # continuous actions: logarithm of the initial standard deviation

    def check(self) -> None:
        """Raises UsageError unless the environments split into minibatches, and these into microbatches."""
        super().check()
        parts = self.minibatches * (self.microbatches if self.grad_comp == "accumulate" else 1)
        if self.num_envs % parts:
            raise UsageError(
                f"hparam minibatches={self.minibatches} (times microbatches, with grad_comp=accumulate) does "
                f"not divide num_envs={self.num_envs}: minibatches are groups of environments"
            )


@register
def impala() -> IMPALAHParams:
    """IMPALA on any environment with discrete or continuous actions: give --env ID."""
    hparams = IMPALAHParams()
    hparams.normalize_reward = True
    hparams.rollout_length = 32
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.epochs = 8
    hparams.value_coef = 1.0  # of half the square
    hparams.trace_lambda = 0.95
    return hparams


@register
def impala_cartpole() -> IMPALAHParams:
    """IMPALA on CartPole-v1."""
    hparams = IMPALAHParams()
    hparams.env = "CartPole-v1"
    hparams.normalize_reward = True
    hparams.train_steps = 500_000
    hparams.eval_period = 50_000
    hparams.num_envs = 16
    hparams.rollout_length = 32
    hparams.lr = 2e-3
    hparams.lr_schedule = "linear"
    hparams.trace_lambda = 0.95
    hparams.entropy_coef = 0.01
    return hparams


@register
def impala_acrobot() -> IMPALAHParams:
    """IMPALA on Acrobot-v1."""
    hparams = IMPALAHParams()
    hparams.env = "Acrobot-v1"
    hparams.normalize_observation = True
    hparams.normalize_reward = True
    hparams.train_steps = 500_000
    hparams.eval_period = 50_000
    hparams.num_envs = 16
    hparams.rollout_length = 32
    hparams.lr = 3e-3
    hparams.lr_schedule = "linear"
    hparams.trace_lambda = 0.95
    hparams.entropy_coef = 0.01
    return hparams


@register
def impala_cartpole_no_velocity() -> IMPALAHParams:
    """Recurrent IMPALA on CartPole without velocities: what is not seen has to be remembered."""
    hparams = impala_cartpole()
    hparams.env = "CartPoleNoVel-v1"
    hparams.lr = 3e-3
    hparams.model.name = "lstm"
    hparams.model.hidden = (64,)
    hparams.train_steps = 1_000_000
    hparams.eval_period = 100_000
    return hparams


@register
def impala_identity() -> IMPALAHParams:
    """IMPALA on Identity-v0: the smallest test that anything is learned."""
    hparams = IMPALAHParams()
    hparams.env = "Identity-v0"
    hparams.train_steps = 8_192
    hparams.num_envs = 8
    hparams.rollout_length = 16
    hparams.gamma = 0.0
    hparams.lr = 1e-2
    hparams.lr_schedule = "linear"
    hparams.minibatches = 2
    hparams.log_period = 1_000
    return hparams
