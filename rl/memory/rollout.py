"""The memory of on-policy algorithms: none."""

from __future__ import annotations

import tensorflow as tf

from rl.hparams.hparams import HParams
from rl.memory.registry import register
from rl.memory.spec import MemorySpec
from rl.types import Batch, Tensor, Trajectory


@register
class Rollout:
    """Keeps nothing: an on-policy algorithm learns from each trajectory once, straight from the runner."""

    experiences = ("rollout", "parameters")  # of the agents that it serves

    variables: dict[str, tf.Variable]

    def __init__(self, spec: MemorySpec, hparams: HParams) -> None:
        self.variables = {}

    def add(self, trajectory: Trajectory) -> None: ...

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """Raises TypeError always: nothing is kept that could be sampled."""
        raise TypeError(
            "the rollout memory keeps no transitions: on-policy algorithms take the trajectory itself"
        )

    def appended(self) -> dict[str, int]:
        return {}

    def cut(self) -> None: ...

    def update_priorities(self, batch: Batch, priorities: Tensor, written: Tensor | None = None) -> None: ...

    def written(self) -> Tensor:
        return tf.constant(0, tf.int64)

    def size(self) -> Tensor:
        return tf.constant(0)

    def can_sample(self) -> Tensor:
        return tf.constant(False)

    def check_valid(self) -> None: ...
