"""Hyperparameters and named sets of PPG (`rl/agents/algos/ppg.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, PositiveInt
from rl.hparams.minatar import MINATAR, PPO
from rl.hparams.ppo import CARTPOLE, PPOHParams
from rl.hparams.procgen import procgen
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class PPGHParams(PPOHParams):
    """PPG for discrete, multi-discrete, multi-binary and continuous actions."""

    searched: ClassVar[dict[str, str]] = {
        "policy_iterations": "[8,16,32,64]",
        "aux_epochs": "1:9",
        "beta_clone": "log:0.1:10",
    }

    algo: str = "ppg"
    epochs: PositiveInt = 1  # passes of policy and value over each rollout (E_pi)
    minibatches: PositiveInt = 8  # per epoch
    value_coef: Coefficient = 1.0  # weight of the value loss, half the mean square
    # Passes of the value over each rollout (E_V), not below `epochs`: beyond these it learns alone.
    value_epochs: PositiveInt = 1
    policy_iterations: PositiveInt = 32  # rollouts before an auxiliary phase (N_pi), which it keeps in memory
    aux_epochs: PositiveInt = 6  # passes of an auxiliary phase over these rollouts (E_aux)
    aux_minibatches: PositiveInt = 512  # per pass of an auxiliary phase
    beta_clone: Coefficient = 1.0  # auxiliary phase: weight of the divergence from the policy before it

    def check(self) -> None:
        """Raises UsageError unless rollout and phase split into minibatches, and the value's passes are no
        fewer than the policy's."""
        super().check()
        self.check_phase()
        if self.value_epochs < self.epochs:
            raise UsageError(
                f"hparam value_epochs={self.value_epochs} is below epochs={self.epochs}: the value learns in "
                "each of the policy's passes, raise it"
            )

    def check_phase(self) -> None:
        """Raises UsageError unless the rollouts of a phase split into equal minibatches."""
        size = self.policy_iterations * self.num_envs * self.rollout_length
        if size % self.aux_minibatches:
            raise UsageError(
                f"hparam aux_minibatches={self.aux_minibatches} does not divide policy_iterations * num_envs "
                f"* rollout_length = {size}: change one of the four"
            )


@register
def ppg() -> PPGHParams:
    """PPG on any environment with discrete or continuous actions: give --env ID."""
    return PPGHParams.of(
        rollout_length=32,
        epochs=10,
        value_epochs=10,
        minibatches=4,
        policy_iterations=16,
        aux_minibatches=64,
        # Without it the values' errors, of hundreds, outweigh the divergence in the auxiliary phase, and the
        # policy follows them: Taxi, CliffWalking and Acrobot are not learned at all.
        normalize_reward=True,
    )


@register
def ppg_cartpole() -> PPGHParams:
    """PPG on CartPole-v1."""
    return PPGHParams.of(CARTPOLE, value_epochs=5, policy_iterations=16, aux_minibatches=32)


@register
def ppg_breakout_minatar() -> PPGHParams:
    """PPG on MinAtar's Breakout, with the network and rates of PPO there.

    `epochs=1,value_epochs=1`, the paper's single pass over each rollout, returned 8.2 on seed 0, this 27.3.
    """
    return PPGHParams.of(MINATAR, PPO, value_epochs=4, policy_iterations=16, aux_minibatches=128)


@register
def ppg_coinrun() -> PPGHParams:
    """PPG on CoinRun's hard levels, all of them, with the paper's values but a quarter of its environments.

    Not trained here. The pictures of 32 rollouts take 6.4 GB of memory, and as much of each checkpoint.
    """
    return PPGHParams.of(
        procgen("coinrun", 0),
        env_kwargs={"distribution_mode": "hard"},
        train_steps=100_000_000,
        num_envs=64,
        rollout_length=256,
        lr=5e-4,
        adam_epsilon=1e-8,
        max_grad_norm=None,
        gamma=0.999,
        entropy_coef=0.01,
        normalize_reward=True,
    )


@register
def ppg_identity() -> PPGHParams:
    """PPG on Identity-v0: the smallest test that anything is learned."""
    return PPGHParams.of(
        ROLLOUT["Identity-v0"],
        rollout_length=32,
        lr=3e-3,
        epochs=4,
        value_epochs=4,
        minibatches=4,
        policy_iterations=3,
        aux_epochs=2,
        aux_minibatches=3,
    )
