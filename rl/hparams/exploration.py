"""Hyperparameters of random actions whose share falls (`act_select=epsilon_greedy`)."""

from __future__ import annotations

from rl.errors import UsageError
from rl.hparams.hparams import Count, Fraction, HParams


class EpsilonHParams(HParams):
    """What `act_select=epsilon_greedy` is told."""

    exploration_epsilon_start: Fraction = 1.0  # share of random actions at first
    exploration_epsilon_end: Fraction = 0.05  # share of random actions from exploration_steps on
    exploration_steps: Count = 10_000  # environment steps from start to end, linear
    evaluation_epsilon: Fraction = 0.0  # share of random actions in evaluations

    def check(self) -> None:
        """Raises UsageError where exploration would grow."""
        super().check()
        if self.exploration_epsilon_end > self.exploration_epsilon_start:
            raise UsageError(
                f"hparam exploration_epsilon_end={self.exploration_epsilon_end:g} is above "
                f"exploration_epsilon_start={self.exploration_epsilon_start:g}: exploration only goes down"
            )
