"""Hyperparameters and named sets of neural-linear Thompson sampling (`rl/agents/algos/neural_linear.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.errors import UsageError
from rl.hparams.hparams import PositiveInt
from rl.hparams.linear_thompson import LinearThompsonHParams
from rl.hparams.linucb import IDENTITY
from rl.hparams.registry import register


class NeuralLinearHParams(LinearThompsonHParams):
    """Neural-linear Thompson sampling for discrete actions. The layers are `model`'s."""

    searched: ClassVar[dict[str, str]] = {
        "posterior_scale": "log:0.01:10.0",
        "prior_precision": "log:0.01:10.0",
        "updates_per_iteration": "[10,50,100]",
        "batch_size": "[64,256,512]",
    }

    algo: str = "neural_linear"
    rollout_length: PositiveInt = 40  # steps between two renewals of layers and posterior
    batch_size: PositiveInt = 512  # steps of an update of the layers, with autoreset steps, which pay nothing
    updates_per_iteration: PositiveInt = 100  # of the layers, after each rollout
    replay_capacity: PositiveInt = 20_000  # steps that layers and posterior learn from, the last ones

    def check(self) -> None:
        """Raises UsageError where a rollout is longer than what is kept."""
        super().check()
        self.check_rollout()

    def check_rollout(self, learners: int = 1) -> None:
        """Raises UsageError where the rollouts of so many learners are longer than what is kept."""
        steps = learners * self.num_envs * self.rollout_length
        if steps > self.replay_capacity:
            rollout = "a rollout" if learners == 1 else f"the rollouts of {learners} learners"
            more = "" if learners == 1 else "num_learners * "
            raise UsageError(
                f"replay_capacity={self.replay_capacity} is less than {rollout}, "
                f"{more}num_envs * rollout_length = {steps}: make it larger"
            )


DENSE: dict[str, Any] = dict(model=dict(hidden=(64, 64), activation="relu"))


@register
def neural_linear() -> NeuralLinearHParams:
    """Neural-linear Thompson sampling on WheelBandit-v0: give --env ID for another bandit."""
    return NeuralLinearHParams.of(
        DENSE, env="WheelBandit-v0", train_steps=20_000, log_period=1_000, num_envs=1, gamma=0.0, lr=3e-3
    )


@register
def neural_linear_identity() -> NeuralLinearHParams:
    """Neural-linear Thompson sampling on Identity-v0: the smallest test that anything is learned."""
    return NeuralLinearHParams.of(
        IDENTITY, batch_size=64, updates_per_iteration=4, replay_capacity=1_024, lr=1e-2
    )
