"""Hyperparameters of algorithms that learn from replayed sequences."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.errors import UsageError

KEEP_STATE = ("lstm", "gru")  # models of this package with which agents keep state


class UniformSequences:
    """What the memory of sequences reads of algorithms that sample all alike and whole: nothing to choose."""

    prioritized: ClassVar[bool] = False
    burn_in: ClassVar[int] = 0
    priority_exponent: ClassVar[float] = 0.0
    priority_epsilon: ClassVar[float] = 1e-6
    importance_sampling_exponent: ClassVar[float] = 0.0
    importance_sampling_exponent_end: ClassVar[float] = 0.0


def check_every_step_is_replayed(hparams: Any) -> None:
    """Raises UsageError where steps of a rollout would be in no sequence."""
    if not hparams.offline and hparams.rollout_length > hparams.unroll_length:
        raise UsageError(
            f"hparam rollout_length={hparams.rollout_length} is above unroll_length={hparams.unroll_length}: "
            "a sequence begins with each rollout, so steps between two would never be learned from"
        )
