"""Priorities of a memory's entries, for all prioritized memories.

Proportional prioritization: Schaul et al. 2016, https://arxiv.org/abs/1511.05952, sections 3.3 and 3.4.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.errors import UsageError
from rl.memory.contract import PriorityHParams
from rl.memory.sum_tree import SumTree
from rl.ops import schedules
from rl.parallel import replicas
from rl.registry import check_hparams
from rl.types import Tensor


class Priorities(SumTree):
    """A sum-tree whose leaf i is p_i^alpha, p = |priority| + epsilon, or 0 where nothing is to be sampled.

    Args:
        capacity: how many leaves.
        hparams: `priority_epsilon`, `importance_sampling_exponent`, its `_end`, `train_steps`.
        exponent: alpha. With 0 all that can be sampled is equally likely.

    Raises:
        UsageError: `priority_epsilon` is not positive.
    """

    def __init__(self, capacity: int, hparams: PriorityHParams, exponent: float) -> None:
        super().__init__(capacity)
        check_hparams(hparams, PriorityHParams, "a memory with priorities")
        if hparams.priority_epsilon <= 0:
            raise UsageError(
                f"priority_epsilon is {hparams.priority_epsilon}: it must be positive, or what has "
                "priority 0 would never be seen again"
            )
        self.hparams, self.exponent = hparams, exponent
        self._largest = tf.Variable(1.0, trainable=False, name="largest_leaf")

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """All state by name, for checkpoints."""
        tree = {f"sum_tree/{name}": each for name, each in super().variables.items()}
        return {**tree, "largest_leaf": self._largest}

    def leaves(self) -> np.ndarray:
        """Returns all leaves, float32 `[capacity]`. Eager, on the host."""
        leaves: np.ndarray = self._levels[0].numpy()[: self.capacity]
        return leaves

    def largest(self) -> Tensor:
        """Returns the largest leaf so far, which is what a new one gets: float32 scalar, 1 at first."""
        return self._largest.read_value()

    def draw(self, seed: Tensor, count: int, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draws a stratified sample of leaves with probability P(i) = p_i^alpha / sum_k p_k^alpha.

        Args:
            seed: int32 [2].
            count: N, how many.
            step: integer scalar, environment steps so far.

        Returns:
            (leaf's index `[N]`, sample weight `[N]`, mask `[N]`). The sample weight is (N P(i))^-beta over
            the largest of the batch, so at most 1 (section 3.4); beta goes linearly from
            `importance_sampling_exponent` to `importance_sampling_exponent_end` over `train_steps`. Weight
            and mask are 0 only while there is nothing to sample.
        """
        index, leaf = self.sample(seed, count)  # [N], [N]
        valid = leaf > 0
        beta = self._beta(step)
        # The least likely leaf has the largest weight, so N cancels. The total does not cancel if several
        # learners draw from trees of their own.
        chance = leaf / tf.maximum(self.total(), np.finfo(np.float32).tiny)  # [N]
        least = replicas.smallest(tf.reduce_min(tf.where(valid, chance, np.inf)))
        sample_weight = tf.where(valid, (least / tf.where(valid, chance, 1.0)) ** beta, 0.0)
        return index, sample_weight, tf.cast(valid, tf.float32)

    def largest_weight(self, index: Tensor, step: Tensor) -> Tensor:
        """Returns the largest (N P(i))^-beta of the leaves `index` that `draw` drew at `step`, by which it
        divided all; N: how many leaves may be drawn. Float32 scalar, 0 where there were none."""
        leaf = self.get(index)
        least = tf.reduce_min(tf.where(leaf > 0, leaf, np.inf))
        number = tf.reduce_sum(tf.cast(self._levels[0].read_value() > 0, tf.float32))
        ratio = tf.where(number > 0, number * least / self.total(), np.inf)
        return ratio ** -self._beta(step)

    def _beta(self, step: Tensor) -> Tensor:
        """The exponent of sample weights at `step`."""
        hparams = self.hparams
        start, end = hparams.importance_sampling_exponent, hparams.importance_sampling_exponent_end
        return schedules.linear(step, start, end, hparams.train_steps)

    def update(self, index: Tensor, priorities: Tensor) -> None:
        """Gives the leaves `index` [N] the priorities [N], usually absolute TD errors.

        A priority that is not finite does not change its leaf; a leaf of 0 stays 0. Of several priorities
        for one leaf the largest counts.
        """
        if self.exponent == 0.0:
            return
        leaf = tf.cast(tf.abs(priorities), tf.float32) + self.hparams.priority_epsilon
        leaf = leaf**self.exponent  # [N]
        usable = tf.math.is_finite(priorities) & tf.math.is_finite(leaf)
        before = self.get(index)  # [N]
        self.set(index, tf.where((before > 0) & usable, leaf, before))
        self._largest.assign(tf.maximum(self.largest(), tf.reduce_max(self.get(index))))

    def check_valid(self) -> None:
        """Raises ValueError when the tree is broken, or a leaf above the largest. Eager, on the host."""
        super().check_valid()
        largest, most = float(self._largest.numpy()), self.leaves().max(initial=0.0)
        if not np.isfinite(largest) or most > largest:
            raise ValueError(f"the largest priority {largest} is below the tree's {most}")
