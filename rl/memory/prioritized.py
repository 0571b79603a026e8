"""Prioritized experience replay, proportional variant: Schaul et al. 2016, https://arxiv.org/abs/1511.05952."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.memory.contract import PrioritizedHParams
from rl.memory.priorities import Priorities
from rl.memory.registry import register
from rl.memory.replay import Replay
from rl.memory.ring import TRANSITION
from rl.memory.spec import MemorySpec
from rl.types import Batch, Tensor, Trajectory


@register
class Prioritized(Replay):
    """Transitions are sampled with probability P(i) = p_i^alpha / sum_k p_k^alpha, p = |priority| + epsilon.

    A leaf of the sum-tree holds p^alpha of its place in the ring: 0 for places that must not be sampled
    (autoreset steps, the newest n rows, the oldest rows that lack frames of their stacks, rows never
    written), and the largest p^alpha so far for transitions without a priority of the algorithm yet.
    """

    def __init__(self, spec: MemorySpec, hparams: PrioritizedHParams) -> None:
        super().__init__(spec, hparams)
        self.tree = Priorities(self.ring.places, hparams, hparams.priority_exponent)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {**super().variables, **self.tree.variables}

    def add(self, trajectory: Trajectory) -> None:
        """Appends T rows [T, B]; the T that now have n successors get the largest priority so far."""
        steps, batch = trajectory.reward.shape
        unready = self.n_step + self.ring.history  # rows: the newest ones, then the oldest ones
        if steps + unready > self.ring.rows:
            raise ValueError(
                f"{steps} rows and n_step {self.n_step} do not fit into a ring of {self.ring.rows}"
            )
        first = self.ring.wrap((self.ring.position - self.n_step) * batch)  # the oldest that becomes ready
        self.ring.add(trajectory)
        places = self.ring.wrap(first + tf.range(steps * batch))  # [T * B]; rows never written have no flags
        valid = (self.ring.flags(places) & TRANSITION) != 0
        leaves = tf.where(valid, self.tree.largest(), 0.0)
        self.tree.set_range(first, tf.concat([leaves, tf.zeros([unready * batch])], 0))

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """Draws a stratified batch of `batch_size` transitions, weighted as `Priorities.draw` says.

        A slot is empty (mask and sample_weight 0) only while nothing can be sampled.

        Args:
            seed: int32 [2].
            step: integer scalar, environment steps so far.
        """
        return self.transitions(*self.tree.draw(seed, self.batch_size, step))

    def update_priorities(self, batch: Batch, priorities: Tensor, written: Tensor | None = None) -> None:
        """Gives the transitions of `batch` the priorities [N], as `Priorities.update` says; places that can
        no longer be sampled (or are empty slots) keep priority 0.

        written: the value of `written` when the batch was sampled; None: nothing was added since. Places that
        were overwritten since then keep their new priority.
        """
        if written is not None:
            gone = self.ring.overwritten(batch.index // self.ring.num_envs, written)
            priorities = tf.where(gone, np.nan, priorities)
        self.tree.update(batch.index, priorities)

    def check_valid(self) -> None:
        """Raises ValueError when ring, tree, or their agreement is broken. Eager, on the host: slow."""
        super().check_valid()
        self.tree.check_valid()
        ring = self.ring
        leaves = self.tree.leaves().reshape(ring.rows, ring.num_envs)  # [C, B]
        expected = (ring.variables["flags"].numpy().reshape(leaves.shape) & TRANSITION) != 0
        unready = np.arange(-self.n_step, ring.history)
        expected[(int(ring.position) + unready) % ring.rows] = False
        wrong = (leaves > 0) != expected
        if wrong.any():
            row, env = np.argwhere(wrong)[0]
            has = (
                "a priority though it cannot be sampled"
                if leaves[row, env]
                else "no priority though it can be sampled"
            )
            raise ValueError(f"replay row {row}, environment {env} has {has}")
