"""A memory that was filled from files: of transitions that others have played (hparam `data`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.data.dataset import places, returns_to_go
from rl.errors import UsageError
from rl.memory.contract import DatasetHParams
from rl.memory.priorities import Priorities
from rl.memory.registry import register
from rl.memory.spec import MemorySpec
from rl.ops import random
from rl.registry import check_hparams
from rl.spaces import space_spec
from rl.types import Batch, Nest, SequenceBatch, Tensor, Trajectory


class FromFiles:
    """What memories that were filled from files share: nothing is added to them, and checkpoints hold their
    priorities alone; the data are read again."""

    count: int  # what may be sampled: transitions, or sequences
    tree: Priorities | None  # of these; None: all are equally likely

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {} if self.tree is None else self.tree.variables

    def add(self, trajectory: Trajectory) -> None:
        """Always raises TypeError: what files hold is not added to."""
        raise TypeError("memory dataset is filled from files, and never from an environment")

    def draw(self, seed: Tensor, count: int, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Numbers of what is sampled, and its weights and masks, as `Priorities.draw`: [count] each."""
        if self.tree is not None:
            return self.tree.draw(seed, count, step)
        ones = tf.ones([count])
        return random.randint(seed, [count], self.count), ones, ones

    def update_priorities(
        self, batch: Batch | SequenceBatch, priorities: Tensor, written: Tensor | None = None
    ) -> None:
        """Gives what is in `batch` the priorities [N], as `Priorities.update` says."""
        if self.tree is not None:
            self.tree.update(batch.index, priorities)

    def can_sample(self) -> Tensor:
        return tf.constant(True)

    def size(self) -> Tensor:
        return tf.constant(self.count)

    def written(self) -> Tensor:
        return tf.constant(0, tf.int64)

    def appended(self) -> dict[str, int]:
        return {}

    def cut(self) -> None: ...

    def check_valid(self) -> None:
        """Raises ValueError when the priorities are broken. Eager, on the host: slow."""
        if self.tree is not None:
            self.tree.check_valid()


@register
class Dataset(FromFiles):
    """Transitions of the data set that `data` names, all equally likely, or by `prioritized`.

    Every transition is there once and none is added: nothing is played. Since they never change, n-step
    rewards are summed when the memory is made, whatever `n_step` is. Observations are held once each, also
    where they are the end of one transition and the beginning of the next. The data are no part of
    checkpoints, which hold priorities alone; they are read again.

    Raises:
        UsageError: there are no data, or the hparams do not fit together.
    """

    experiences = ("transition",)  # of the agents that it serves

    def __init__(self, spec: MemorySpec, hparams: Any) -> None:
        check_hparams(hparams, DatasetHParams, "memory dataset")
        fields = type(hparams).model_fields  # an algorithm may have no use for some
        data = data_of(spec)
        self.batch_size, self.count = hparams.batch_size, len(data.reward)
        self._observation = columns_of(space_spec(spec.observation_space), data.observation)
        self._action = columns_of(space_spec(spec.action_space), data.action)
        n_step = hparams.n_step if "n_step" in fields else 1
        columns = n_step_columns(data.reward, data.terminated, data.lengths, n_step, hparams.gamma)
        # Places are int64: int32 variables live on the host, where code compiled for an accelerator cannot
        # reach them.
        self._reward, self._discount, self._place, self._following, self._next = (
            tf.Variable(column, trainable=False) for column in columns
        )
        self.tree = priorities_of(hparams, self.count)

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """A batch of `batch_size` transitions.

        Args:
            seed: int32 [2].
            step: integer scalar, updates so far, by which `Priorities.draw` weighs.
        """
        index, sample_weight, mask = self.draw(seed, self.batch_size, step)
        place, following = tf.gather(self._place, index), tf.gather(self._following, index)  # [N]
        return Batch(
            observation=rows_of(self._observation, place),
            action=rows_of(self._action, index),
            reward=tf.gather(self._reward, index),
            discount=tf.gather(self._discount, index),
            next_observation=rows_of(self._observation, following),
            sample_weight=sample_weight,
            index=index,
            mask=mask,
            next_action=rows_of(self._action, tf.gather(self._next, index)),
        )


def data_of(spec: MemorySpec) -> Any:
    """Returns the columns that a memory is to hold. Raises UsageError where there are none."""
    if spec.data is None:
        raise UsageError("memory dataset holds what files hold: name them by data=DIR")
    return spec.data


def priorities_of(hparams: Any, count: int) -> Priorities | None:
    """Returns the priorities, equal at first, of so many transitions or sequences; None where the hparams ask
    for none."""
    if "prioritized" not in type(hparams).model_fields or not hparams.prioritized:
        return None
    tree = Priorities(count, hparams, hparams.priority_exponent)
    tree.set_range(tf.constant(0), tf.ones([count]))
    return tree


def n_step_columns(
    reward: np.ndarray, terminated: np.ndarray, lengths: np.ndarray, n: int, gamma: float
) -> tuple[np.ndarray, ...]:
    """What the n steps from each one on amount to (`rl.memory.replay.n_step_return`), cut at the end of its
    episode.

    Args:
        reward: float32 [N], of whole episodes one after another.
        terminated: bool [N].
        lengths: int [E], steps of each episode; their sum is N.
        n: steps, as many as one likes.
        gamma: discount factor of one step.

    Returns:
        reward: float32 [N], the sum of gamma^k reward_k over the m steps up to the episode's end, or all n.
        discount: float32 [N], gamma^m, or 0 where the last of them terminated.
        place: int64 [N], of each step's observation among [N + E], of which each episode has one more.
        following: int64 [N], of the observation after the m steps.
        next: int64 [N], the step after the m steps; where the episode is over, its last one.
    """
    lengths = np.asarray(lengths, np.int64)
    index = np.arange(len(reward))
    left = np.repeat(np.cumsum(lengths), lengths) - index  # [N] steps to the end, this one included
    returns = returns_to_go(reward, lengths, gamma)
    m = np.minimum(left, n)
    ends = m == left
    beyond = np.where(ends, 0.0, returns[np.where(ends, 0, index + m)])
    total = returns - gamma**m * beyond
    last = index + m - 1
    discount = np.where(ends & np.asarray(terminated)[last], 0.0, gamma**m)
    place = places(lengths)
    following = np.where(ends, last, index + m)
    return total.astype(np.float32), discount.astype(np.float32), place, place + m, following


def columns_of(spec: Nest, values: Nest) -> Nest:
    """Returns variables of what stands in the data, as tensors have it."""

    def column(each: tf.TensorSpec, array: Any) -> tf.Variable:
        rows = np.asarray(array, each.dtype.as_numpy_dtype).reshape([-1, *each.shape])
        return tf.Variable(rows, trainable=False)

    return tf.nest.map_structure(column, spec, values)


def rows_of(columns: Nest, place: Tensor) -> Nest:
    """Returns the rows of the columns at these places, [*place.shape, ...]."""
    return tf.nest.map_structure(lambda column: tf.gather(column, place), columns)
