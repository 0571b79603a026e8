"""The memory of on-policy algorithms: none."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.memory.registry import register
from rl.memory.spec import MemorySpec
from rl.types import Batch, Tensor, Trajectory


@register
class Rollout:
    """Keeps nothing: an on-policy algorithm learns from each trajectory once, straight from the runner."""

    experiences = ("rollout", "parameters")  # of the agents that it serves

    def __init__(self, spec: MemorySpec, hparams: Any) -> None:
        self.variables: dict[str, tf.Variable] = {}

    def add(self, trajectory: Trajectory) -> None:
        """Forgets the trajectory at once."""

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """Always raises TypeError: nothing is kept that could be sampled."""
        raise TypeError(
            "the rollout memory keeps no transitions: on-policy algorithms take the trajectory itself"
        )

    def appended(self) -> dict[str, int]:
        """Nothing is kept."""
        return {}

    def cut(self) -> None:
        """Nothing is kept, so nothing is cut."""

    def update_priorities(self, batch: Batch, priorities: Tensor, written: Tensor | None = None) -> None:
        """Does nothing."""

    def written(self) -> Tensor:
        """0, int64 scalar."""
        return tf.constant(0, tf.int64)

    def size(self) -> Tensor:
        """0, int32 scalar."""
        return tf.constant(0)

    def can_sample(self) -> Tensor:
        """False, bool scalar."""
        return tf.constant(False)

    def check_valid(self) -> None:
        """Nothing is kept, nothing can be broken."""
