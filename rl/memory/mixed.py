"""A replay memory mixed with a data set: each batch has a part of either (`data_share`).

Ball et al. 2023, "Efficient online reinforcement learning with offline data", https://arxiv.org/abs/2302.02948,
section 4.1: symmetric sampling, half of each batch from the data.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.errors import UsageError
from rl.memory.dataset import Dataset
from rl.memory.spec import MemorySpec
from rl.ops import random
from rl.types import Batch, Tensor, Trajectory


class Mixed:
    """Two memories as one; the methods are those of `rl.memory.contract.Memory`. Sampling begins once the
    replay memory has `min_replay_size` transitions.

    Args:
        kind: class of the replay memory.
        spec: with `data`.
        hparams: of the run; `batch_size` is that of both parts together.

    Raises:
        UsageError: one of the two would get no part of a batch, or the hparams do not fit together.
    """

    experiences = ("transition",)  # of the agents that it serves

    def __init__(self, kind: Any, spec: MemorySpec, hparams: Any) -> None:
        of_data = round(hparams.batch_size * hparams.data_share)
        self.split = hparams.batch_size - of_data
        if not 0 < self.split < hparams.batch_size:
            raise UsageError(
                f"data_share={hparams.data_share:g} of batch_size={hparams.batch_size} leaves {self.split} "
                f"transitions that are played and {of_data} of data: both need some (memory=dataset has data "
                "alone)"
            )
        self.played = kind(spec, _with_batch(hparams, self.split))
        self.data = Dataset(spec, _with_batch(hparams, of_data))

    @property
    def variables(self) -> dict[str, Any]:
        data = {f"data/{name}": each for name, each in self.data.variables.items()}
        return {**self.played.variables, **data}

    def add(self, trajectory: Trajectory) -> None:
        self.played.add(trajectory)

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """Draws a batch of `batch_size` transitions, first those of the replay memory, then those of the
        data. With priorities, sample weights are (N P(i))^-beta of each part over the largest of both.

        seed: int32 [2]; step: environment steps so far.
        """
        played_seed, data_seed = random.split(seed, 2)
        data = self.data.sample(data_seed, step)._replace(next_action=())
        played = self.played.sample(played_seed, step)
        trees: list[Any] = [getattr(each, "tree", None) for each in (self.played, self.data)]
        if all(each is not None for each in trees):
            # Each part divided by its own largest weight: all are to be divided by that of the batch.
            pairs = zip(trees, (played, data), strict=True)
            largest = tf.stack([tree.largest_weight(part.index, step) for tree, part in pairs])
            share = largest / tf.maximum(tf.reduce_max(largest), np.finfo(np.float32).tiny)
            played, data = (
                part._replace(sample_weight=part.sample_weight * share[i])
                for i, part in enumerate((played, data))
            )
        batch: Batch = tf.nest.map_structure(lambda x, y: tf.concat([x, y], 0), played, data)
        return batch

    def update_priorities(self, batch: Batch, priorities: Tensor, written: Tensor | None = None) -> None:
        """Gives each part its priorities."""
        played, data = (tf.nest.map_structure(lambda x, i=i: _parts(x, self.split)[i], batch) for i in (0, 1))
        first, second = _parts(priorities, self.split)
        self.played.update_priorities(played, first, written)
        self.data.update_priorities(data, second)

    def can_sample(self) -> Tensor:
        return self.played.can_sample()

    def size(self) -> Tensor:
        return self.played.size()

    def written(self) -> Tensor:
        return self.played.written()

    def appended(self) -> dict[str, int]:
        found: dict[str, int] = self.played.appended()
        return found

    def cut(self) -> None:
        self.played.cut()

    def check_valid(self) -> None:
        """Raises ValueError when an invariant of either is broken. Eager, on the host: slow."""
        self.played.check_valid()
        self.data.check_valid()


def _with_batch(hparams: Any, size: int) -> Any:
    own = hparams.thawed()
    own.batch_size = size
    return own.freeze()


def _parts(x: Tensor, split: int) -> tuple[Tensor, Tensor]:
    return x[:split], x[split:]
