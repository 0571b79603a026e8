"""Prioritized replay of sequences, each with the recurrent state at its start.

Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning" (R2D2),
https://openreview.net/forum?id=r1lyTjAqYX, sections 2.3 and 3.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.errors import UsageError
from rl.memory.contract import SequenceHParams
from rl.memory.priorities import Priorities
from rl.memory.registry import register
from rl.memory.replay import RingMemory
from rl.memory.ring import TERMINATED, TRANSITION, TRUNCATED, Ring
from rl.memory.spec import MemorySpec, leaf_names
from rl.registry import check_hparams
from rl.types import SequenceBatch, Tensor, Trajectory


@register
class Sequence(RingMemory):
    """Sequences of `burn_in + unroll_length` steps that begin where a rollout began.

    Each rollout of B environments starts B sequences, since the runner records the network's state at the
    start of a rollout; consecutive sequences overlap if a rollout is shorter than a sequence. Each sequence
    has a leaf of a sum-tree: p^alpha, or 0 until all its steps and the observation after them are stored, and
    again once its first rollout is overwritten (or frames before it that its stacks need).
    With `priority_exponent` 0, or `prioritized` false, all sequences are equally likely.

    A sequence may hold several episodes: the step between them has mask 0.

    Where adding and sampling are compiled into one function, add first (see `rl.memory.replay`).

    Raises:
        UsageError: the hparams do not fit together.
    """

    experiences = ("sequence",)  # of the agents that it serves

    def __init__(self, spec: MemorySpec, hparams: SequenceHParams) -> None:
        check_hparams(hparams, SequenceHParams, "memory sequence")
        self.batch_size = hparams.batch_size
        self.min_size = max(hparams.min_replay_size, 1)
        self.num_envs, self.period = spec.num_envs, spec.rollout_length
        self.length = hparams.burn_in + hparams.unroll_length  # steps; there is one observation more
        self.span = -(-(self.length + 1) // self.period)  # rollouts that hold a whole sequence
        self.lost = -(-(spec.frame_stack - 1) // self.period)  # oldest rollouts that lack pictures, when full
        self.rollouts = _rollouts(spec, hparams, self.span + self.lost)
        self.ring = Ring(spec, self.rollouts * self.period)
        exponent = hparams.priority_exponent if hparams.prioritized else 0.0
        self.tree = Priorities(self.rollouts * self.num_envs, hparams, exponent)
        # Keep shapes only: a compiled function must not hold tensors of whoever made the spec.
        self._state_spec = tf.nest.map_structure(
            lambda x: tf.TensorSpec(x.shape[1:], x.dtype), spec.recurrent_state
        )
        leaves = self.rollouts * self.num_envs
        self._state = [
            tf.Variable(tf.zeros([leaves, *each.shape], each.dtype), trainable=False, name=f"state_{i}")
            for i, each in enumerate(tf.nest.flatten(self._state_spec))
        ]

    @property
    def variables(self) -> dict[str, tf.Variable]:
        state = dict(zip(leaf_names("recurrent_state", self._state_spec), self._state, strict=True))
        return {**self.ring.variables, **state, **self.tree.variables}

    def add(self, trajectory: Trajectory) -> None:
        """Appends a rollout [T, B], T = `rollout_length`; the sequences that it completes get the largest
        priority so far, those whose beginning it overwrites lose theirs.

        Raises:
            ValueError: the trajectory has another length.
        """
        if trajectory.reward.shape[0] != self.period:
            raise ValueError(f"cannot add {trajectory.reward.shape[0]} steps: rollouts have {self.period}")
        count, leaves = self.num_envs, self.tree.capacity
        own = self._leaf_of(self.ring.position)  # of the rollout's first sequence
        self.ring.add(trajectory)
        index = own + tf.range(count)  # [B]
        for variable, value in zip(self._state, tf.nest.flatten(trajectory.recurrent_state), strict=True):
            variable.scatter_update(tf.IndexedSlices(value, index))
        complete = self.ring.filled >= self.span * self.period
        ready = tf.fill([count], tf.where(complete, self.tree.largest(), 0.0))
        first = own - (self.span - 1) * count  # of the oldest rollout of the newest sequences
        first = tf.where(first < 0, first + leaves, first)
        unready = tf.zeros([(self.span - 1 + self.lost) * count])  # of the newest rollouts, then the oldest
        self.tree.set_range(first, tf.concat([ready, unready], 0))

    def sample(self, seed: Tensor, step: Tensor) -> SequenceBatch:
        """Draws a stratified batch of `batch_size` sequences, weighted as `Priorities.draw` says.

        A slot is empty (mask and sample_weight 0) only while no sequence is complete.

        Args:
            seed: int32 [2].
            step: integer scalar, environment steps so far.
        """
        index, sample_weight, mask = self.tree.draw(seed, self.batch_size, step)
        return SequenceBatch(self._sequences(index), sample_weight, index, mask)

    def update_priorities(
        self, batch: SequenceBatch, priorities: Tensor, written: Tensor | None = None
    ) -> None:
        """Gives the sequences of `batch` the priorities [N], as `Priorities.update` says.

        written: the value of `written` when the batch was sampled; None: nothing was added since. Places that
        were overwritten since then keep their new priority.
        """
        if written is not None:
            gone = self.ring.overwritten(batch.index // self.num_envs * self.period, written)
            priorities = tf.where(gone, np.nan, priorities)
        self.tree.update(batch.index, priorities)

    def size(self) -> Tensor:
        """Returns how many steps are in the rollouts whose sequences may be sampled, int32 scalar."""
        stored = self.ring.filled // self.period
        lost = tf.maximum(stored + self.lost - self.rollouts, 0)
        return tf.maximum(stored - (self.span - 1) - lost, 0) * self.period * self.num_envs

    def check_valid(self) -> None:
        """Raises ValueError when ring, states, tree, or their agreement is broken. Eager, on the host."""
        super().check_valid()
        self.tree.check_valid()
        position, filled = int(self.ring.position), int(self.ring.filled)
        if position % self.period or filled % self.period:
            raise ValueError(
                f"replay position {position}, {filled} rows filled: no multiples of {self.period}"
            )
        for name, variable in self.variables.items():
            if name.startswith("recurrent_state") and not np.isfinite(variable.numpy()).all():
                raise ValueError(f"replay holds a {name} that is not finite")
        leaves = self.tree.leaves()
        age = (position // self.period - 1 - np.arange(self.rollouts)) % self.rollouts  # 0: the newest
        stored = filled // self.period
        lost = max(stored + self.lost - self.rollouts, 0)
        expected = (age >= self.span - 1) & (age < stored - lost)  # [M]
        wrong = (leaves.reshape(self.rollouts, -1) > 0) != expected[:, None]
        if wrong.any():
            rollout, env = np.argwhere(wrong)[0]
            has = "no priority though it is" if expected[rollout] else "a priority though it is not"
            raise ValueError(f"the sequence of rollout {rollout}, environment {env} has {has} complete")

    def _leaf_of(self, row: Tensor) -> Tensor:
        return row // self.period * self.num_envs

    def _sequences(self, index: Tensor) -> Trajectory:
        """The sequences of the leaves `index` [N]; time first."""
        ring, count = self.ring, self.num_envs
        rollout = index // count
        start = index + rollout * ((self.period - 1) * count)  # = rollout * T * B + environment
        steps = tf.range(self.length + 1)[:, None] * count  # [L+1, 1]
        places = ring.wrap(start + steps)  # [L+1, N]
        flags = ring.flags(places[:-1])  # [L, N]
        state = tf.nest.pack_sequence_as(self._state_spec, [tf.gather(each, index) for each in self._state])
        return Trajectory(
            observation=ring.observation(places),
            action=ring.action(places[:-1]),
            reward=ring.reward(places[:-1]),
            terminated=(flags & TERMINATED) != 0,
            truncated=(flags & TRUNCATED) != 0,
            mask=tf.cast((flags & TRANSITION) != 0, tf.float32),
            extras=ring.extras(places[:-1]),
            recurrent_state=state,
        )


def _rollouts(spec: MemorySpec, hparams: SequenceHParams, span: int) -> int:
    """How many rollouts are kept, after checking the hparams against each other."""
    if hparams.replay_capacity >= 2**30:
        raise UsageError(f"replay_capacity is {hparams.replay_capacity}: places are int32, stay below 2^30")
    size = spec.rollout_length * spec.num_envs
    rollouts = hparams.replay_capacity // size
    length = hparams.burn_in + hparams.unroll_length
    if rollouts < span:
        raise UsageError(
            f"replay_capacity {hparams.replay_capacity} is too small: sequences of {length} steps from "
            f"{spec.num_envs} environments with rollout_length {spec.rollout_length} "
            f"need {span * size} or more"
        )
    most = (rollouts - span + 1) * size
    if hparams.min_replay_size > most:
        raise UsageError(
            f"min_replay_size {hparams.min_replay_size} is never reached: a replay_capacity of "
            f"{hparams.replay_capacity} keeps at most {most} steps that open sequences of {length}"
        )
    return rollouts
