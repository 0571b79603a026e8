"""Prioritized experience replay, proportional variant: Schaul et al. 2016, https://arxiv.org/abs/1511.05952."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.errors import UsageError
from rl.memory.registry import register
from rl.memory.replay import Replay
from rl.memory.ring import TRANSITION
from rl.memory.spec import MemorySpec
from rl.memory.sum_tree import SumTree
from rl.ops import schedules
from rl.types import Batch, Tensor, Trajectory


@register
class Prioritized(Replay):
    """Transitions are sampled with probability P(i) = p_i^alpha / sum_k p_k^alpha, p = |priority| + epsilon.

    A leaf of the sum-tree holds p^alpha of its place in the ring: 0 where nothing is to be sampled (autoreset
    steps, the newest n rows, rows never written), the largest p^alpha so far where the algorithm has not
    said.
    """

    def __init__(self, spec: MemorySpec, hparams: Any) -> None:
        super().__init__(spec, hparams)
        if hparams.priority_epsilon <= 0:
            raise UsageError(
                f"priority_epsilon is {hparams.priority_epsilon}: it must be positive, or a transition of "
                "priority 0 would never be seen again"
            )
        self.hparams = hparams
        self.tree = SumTree(self.ring.places)
        self._largest = tf.Variable(1.0, trainable=False, name="largest_leaf")

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """All state by name, for checkpoints."""
        tree = {f"sum_tree/{name}": each for name, each in self.tree.variables.items()}
        return {**super().variables, **tree, "largest_leaf": self._largest}

    def add(self, trajectory: Trajectory) -> None:
        """Appends T rows [T, B]; the T that now have n successors get the largest priority so far."""
        steps, batch = trajectory.reward.shape
        if steps + self.n_step > self.ring.rows:
            raise ValueError(
                f"{steps} rows and n_step {self.n_step} do not fit into a ring of {self.ring.rows}"
            )
        first = self.ring.wrap((self.ring.position - self.n_step) * batch)  # the oldest that becomes ready
        self.ring.add(trajectory)
        places = self.ring.wrap(first + tf.range(steps * batch))  # [T * B]; rows never written have no flags
        valid = (self.ring.flags(places) & TRANSITION) != 0
        leaves = tf.where(valid, self._largest.read_value(), 0.0)
        unready = tf.zeros([self.n_step * batch])  # the newest n rows
        self.tree.set_range(first, tf.concat([leaves, unready], 0))

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """A stratified batch of `batch_size` transitions.

        `sample_weight` is (N P(i))^-beta over the largest of the batch, so at most 1 (section 3.4); beta goes
        linearly from `importance_sampling_exponent` to `importance_sampling_exponent_end` over `train_steps`.
        A slot is empty (mask and sample_weight 0) only while nothing can be sampled.

        Args:
            seed: int32 [2].
            step: integer scalar, environment steps so far.
        """
        hparams = self.hparams
        place, leaf = self.tree.sample(seed, self.batch_size)  # [N], [N]
        valid = leaf > 0
        start, end = hparams.importance_sampling_exponent, hparams.importance_sampling_exponent_end
        beta = schedules.linear(step, start, end, hparams.train_steps)
        # The weight of the least likely one is the largest: N and the total cancel.
        least = tf.reduce_min(tf.where(valid, leaf, np.inf))
        sample_weight = tf.where(valid, (least / tf.where(valid, leaf, 1.0)) ** beta, 0.0)
        return self.transitions(place, sample_weight, tf.cast(valid, tf.float32))

    def update_priorities(self, batch: Batch, priorities: Tensor) -> None:
        """Gives the transitions of `batch` the priorities [N], usually absolute TD errors.

        A priority that is not finite leaves its transition's as it was; a place that cannot be sampled any
        more (or is an empty slot) stays so. Of a transition that is twice in the batch the larger priority
        counts.
        """
        leaf = tf.cast(tf.abs(priorities), tf.float32) + self.hparams.priority_epsilon
        leaf = leaf**self.hparams.priority_exponent  # [N]
        usable = tf.math.is_finite(priorities) & tf.math.is_finite(leaf)
        before = self.tree.get(batch.index)  # [N]
        leaf = tf.where((before > 0) & usable, leaf, before)
        self.tree.set(batch.index, leaf)
        self._largest.assign(
            tf.maximum(self._largest.read_value(), tf.reduce_max(self.tree.get(batch.index)))
        )

    def check_valid(self) -> None:
        """Raises ValueError when ring, tree, or their agreement is broken. Eager, on the host: slow."""
        super().check_valid()
        self.tree.check_valid()
        ring = self.ring
        leaves = self.tree.variables["level_0"].numpy()[: ring.places]
        leaves = leaves.reshape(ring.rows, ring.num_envs)  # [C, B]
        expected = (ring.variables["flags"].numpy().reshape(leaves.shape) & TRANSITION) != 0
        newest = (int(ring.position) - 1 - np.arange(self.n_step)) % ring.rows
        expected[newest] = False
        wrong = (leaves > 0) != expected
        if wrong.any():
            row, env = np.argwhere(wrong)[0]
            has = (
                "a priority though it cannot be sampled"
                if leaves[row, env]
                else "no priority though it can be sampled"
            )
            raise ValueError(f"replay row {row}, environment {env} has {has}")
        largest = float(self._largest.numpy())
        if not np.isfinite(largest) or leaves.max(initial=0.0) > largest:
            raise ValueError(f"the largest priority {largest} is below the tree's {leaves.max(initial=0.0)}")
