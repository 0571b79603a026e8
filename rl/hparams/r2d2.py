"""Hyperparameters and named sets of R2D2 (`rl/agents/algos/r2d2.py`)."""

from __future__ import annotations

from rl.errors import UsageError
from rl.hparams.dqn import DQNHParams
from rl.hparams.hparams import Coefficient, Count, Fraction, PositiveInt
from rl.hparams.registry import register


class R2D2HParams(DQNHParams):
    """R2D2: DQN's hyperparameters where `batch_size` counts sequences, and those of sequences."""

    algo: str = "r2d2"
    memory: str = "sequence"
    gamma: Fraction = 0.997

    double: bool = True
    batch_size: PositiveInt = 32  # sequences
    n_step: PositiveInt = 5
    prioritized: bool = True  # false: sequences are sampled uniformly
    priority_exponent: Fraction = 0.9
    importance_sampling_exponent: Fraction = 0.0  # the paper found no benefit in the weights
    importance_sampling_exponent_end: Fraction = 0.0
    priority_eta: Fraction = 0.9  # weight of a sequence's largest error beside its mean one
    burn_in: Count = 40  # steps of a sequence that only bring the state up to date
    unroll_length: PositiveInt = 80  # steps of a sequence that are learned from
    value_rescaling: bool = True  # values on a squashed scale (Pohlen et al. 2018)
    value_rescaling_epsilon: Coefficient = 1e-3  # slope of the rescaling's linear part
    retrace_lambda: Fraction | None = None  # Retrace(lambda) targets; None: n_step ones

    @property
    def memory_name(self) -> str:
        """`memory`: it is the memory of sequences that `prioritized` switches, not which memory."""
        return self.memory

    def check(self) -> None:
        """Raises UsageError where sequences and rollouts do not fit together."""
        super().check()
        if self.rollout_length > self.unroll_length:
            raise UsageError(
                f"hparam rollout_length={self.rollout_length} is above unroll_length={self.unroll_length}: "
                "a sequence begins with each rollout, so steps between two would never be learned from"
            )


def recurrent_networks(hparams: R2D2HParams) -> R2D2HParams:
    """Sets an LSTM and dueling streams; returns the same hparams."""
    hparams.model.name = "lstm"
    hparams.model.activation = "relu"
    hparams.model.init = "lecun_uniform"
    hparams.dueling = True
    return hparams


@register
def r2d2() -> R2D2HParams:
    """R2D2 with an LSTM on any environment with discrete actions: give --env ID."""
    hparams = recurrent_networks(R2D2HParams())
    hparams.gamma = 0.99
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.burn_in = 8
    hparams.unroll_length = 16
    hparams.num_envs = 16
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 16
    hparams.target_update_period = 100
    hparams.max_grad_norm = 10.0
    return hparams


@register
def r2d2_cartpole() -> R2D2HParams:
    """R2D2 on CartPole-v1."""
    hparams = recurrent_networks(R2D2HParams())
    hparams.env = "CartPole-v1"
    hparams.train_steps = 150_000
    hparams.eval_period = 30_000
    hparams.model.hidden = (64,)
    hparams.model.recurrent_units = 64
    hparams.gamma = 0.99
    hparams.lr = 1e-3
    hparams.lr_schedule = "linear"
    hparams.n_step = 10
    hparams.burn_in = 8
    hparams.unroll_length = 16
    hparams.batch_size = 32
    hparams.replay_capacity = 100_000
    hparams.min_replay_size = 1_000
    hparams.num_envs = 16
    hparams.rollout_length = 16
    hparams.updates_per_iteration = 16
    hparams.target_update_period = 100
    hparams.exploration_steps = 10_000
    hparams.exploration_epsilon_end = 0.04
    hparams.max_grad_norm = 10.0
    return hparams


@register
def r2d2_cartpole_no_velocity() -> R2D2HParams:
    """R2D2 on CartPoleNoVel-v1, where velocities have to be remembered."""
    hparams = r2d2_cartpole()
    hparams.env = "CartPoleNoVel-v1"
    hparams.exploration_steps = 15_000
    return hparams


@register
def r2d2_identity() -> R2D2HParams:
    """R2D2 on Identity-v0: the smallest test that anything is learned."""
    hparams = recurrent_networks(R2D2HParams())
    hparams.env = "Identity-v0"
    hparams.train_steps = 4_000
    hparams.gamma = 0.0
    hparams.model.hidden = (32,)
    hparams.model.recurrent_units = 32
    hparams.n_step = 1
    hparams.burn_in = 2
    hparams.unroll_length = 4
    hparams.replay_capacity = 2_000
    hparams.min_replay_size = 100
    hparams.batch_size = 32
    hparams.num_envs = 8
    hparams.rollout_length = 4
    hparams.updates_per_iteration = 4
    hparams.target_update_period = 50
    hparams.exploration_steps = 2_000
    hparams.log_period = 1_000
    return hparams
