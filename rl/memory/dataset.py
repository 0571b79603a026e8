"""A memory of transitions from files: a data set of recorded episodes (hparam `data`)."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    """Base of memories of files: nothing can be added to them, and checkpoints hold only their priorities,
    since a resumed run reads the data again."""

    count: int | tf.Variable  # number of transitions or sequences that may be sampled
    tree: Priorities | None  # their priorities; None: all are equally likely

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {} if self.tree is None else self.tree.variables

    def add(self, trajectory: Trajectory) -> None:
        """Raises TypeError always: nothing can be added to the data of files."""
        raise TypeError("memory dataset is filled from files, and never from an environment")

    def draw(self, seed: Tensor, count: int, step: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draws `count` transitions or sequences: by `Priorities.draw`, or, without priorities, uniformly,
        with weights and masks of 1. Returns indices, sample weights and masks, [count] each."""
        if self.tree is not None:
            return self.tree.draw(seed, count, step)
        ones = tf.ones([count])
        return random.randint(seed, [count], self.size()), ones, ones

    def update_priorities(
        self, batch: Batch | SequenceBatch, priorities: Tensor, written: Tensor | None = None
    ) -> None:
        """Gives what is in `batch` the priorities [N], as `Priorities.update` says."""
        if self.tree is not None:
            self.tree.update(batch.index, priorities)

    def can_sample(self) -> Tensor:
        return tf.constant(True)

    def size(self) -> Tensor:
        return tf.cast(self.count, tf.int32)

    def written(self) -> Tensor:
        return tf.constant(0, tf.int64)

    def appended(self) -> dict[str, int]:
        return {}

    def cut(self) -> None: ...

    def check_valid(self) -> None:
        """Raises ValueError when the priorities are broken. Eager, on the host: slow."""
        if self.tree is not None:
            self.tree.check_valid()


class Columns(NamedTuple):
    """The columns of N steps in E episodes; the last five come from `n_step_columns`."""

    observation: Nest  # [N + E, ...]
    action: Nest  # [N, ...]
    reward: Any
    discount: Any
    place: Any
    following: Any
    next: Any


@register
class Dataset(FromFiles):
    """Transitions of the data set that `data` names, all equally likely, or prioritized with `prioritized`.

    Since the transitions never change, n-step returns are summed once, when the memory is made. Each
    observation is stored once, although it ends one transition and begins the next. Checkpoints hold only the
    priorities: a resumed run reads the data again.

    Raises:
        UsageError: there are no data, or the hparams do not fit together.
    """

    experiences = ("transition",)  # of the agents that it serves

    def __init__(self, spec: MemorySpec, hparams: Any) -> None:
        check_hparams(hparams, DatasetHParams, "memory dataset")
        fields = type(hparams).model_fields  # an algorithm may have no use for some
        data = data_of(spec)
        self.batch_size, self.count, self._gamma = hparams.batch_size, len(data.reward), hparams.gamma
        self._n_step = hparams.n_step if "n_step" in fields else 1
        self._specs = space_spec(spec.observation_space), space_spec(spec.action_space)
        self._columns = tf.nest.map_structure(
            lambda column: tf.Variable(column, trainable=False), self.columns(data)
        )
        self.tree = priorities_of(hparams, self.count)

    def columns(self, data: Any) -> Columns:
        """Returns what is held of data, as arrays."""
        # Places are int64: int32 variables live on the host, where code compiled for an accelerator cannot
        # reach them.
        summed = n_step_columns(data.reward, data.terminated, data.lengths, self._n_step, self._gamma)
        seen, acted = self._specs
        return Columns(arrays_of(seen, data.observation), arrays_of(acted, data.action), *summed)

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """Draws a batch of `batch_size` transitions.

        Args:
            seed: int32 [2].
            step: integer scalar, updates so far, by which `Priorities.draw` weighs.
        """
        index, sample_weight, mask = self.draw(seed, self.batch_size, step)
        columns = self._columns
        place, following = tf.gather(columns.place, index), tf.gather(columns.following, index)  # [N]
        return Batch(
            observation=rows_of(columns.observation, place),
            action=rows_of(columns.action, index),
            reward=tf.gather(columns.reward, index),
            discount=tf.gather(columns.discount, index),
            next_observation=rows_of(columns.observation, following),
            sample_weight=sample_weight,
            index=index,
            mask=mask,
            next_action=rows_of(columns.action, tf.gather(columns.next, index)),
        )


class DatasetChunk(Dataset):
    """Holds one part of a data set at a time; each part replaces the one before.

    Args:
        spec: with the first part as `data`.
        hparams: of the run; priorities are refused, since they need the whole data set.
        steps, observations: capacity, which is that of the largest part.

    Raises:
        UsageError: the hparams do not fit together.
    """

    def __init__(self, spec: MemorySpec, hparams: Any, steps: int, observations: int) -> None:
        self._room = steps, observations
        super().__init__(spec, hparams)
        if self.tree is not None:
            raise UsageError(
                "prioritized=true is for data that memory holds as a whole: leave data_chunk out"
            )
        self._held = tf.Variable(len(spec.data.reward), dtype=tf.int64, trainable=False)
        self.count = self._held

    def columns(self, data: Any) -> Columns:
        """Returns what is held of data, as arrays padded with zeros to the capacity (`steps` and
        `observations` rows)."""
        found, (steps, observations) = super().columns(data), self._room

        def padded(x: np.ndarray, rows: int) -> np.ndarray:
            return np.pad(x, [(0, rows - len(x))] + [(0, 0)] * (x.ndim - 1))

        seen = tf.nest.map_structure(lambda x: padded(x, observations), found.observation)
        rest = tf.nest.map_structure(lambda x: padded(x, steps), found._replace(observation=()))
        return found._replace(**rest._asdict() | {"observation": seen})

    def fill(self, columns: Columns, count: int) -> None:
        """Replaces the part by the `columns` of another one, which has `count` transitions."""
        tf.nest.map_structure(lambda variable, x: variable.assign(x), self._columns, columns)
        self._held.assign(count)


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
    """Computes the n-step return of every step (`rl.memory.replay.n_step_return`), cut at its episode's end.

    Args:
        reward: float32 [N], of whole episodes one after another.
        terminated: bool [N].
        lengths: int [E], steps of each episode; their sum is N.
        n: steps, any number of at least 1.
        gamma: discount factor of one step.

    Returns:
        reward: float32 [N], the sum of gamma^k reward_k over the m steps up to the episode's end, or all n.
        discount: float32 [N], gamma^m, or 0 where the last of them terminated.
        place: int64 [N], index of each step's observation among all [N + E] (an episode has one more than
            steps).
        following: int64 [N], index of the observation after the m steps.
        next: int64 [N], index of the step after the m steps; at the episode's end, of its last step.
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


def arrays_of(spec: Nest, values: Nest) -> Nest:
    """Returns columns of the data as arrays with the spec's types and shapes."""
    return tf.nest.map_structure(
        lambda each, x: np.asarray(x, each.dtype.as_numpy_dtype).reshape([-1, *each.shape]), spec, values
    )


def columns_of(spec: Nest, values: Nest) -> Nest:
    """Returns columns of the data as variables."""
    return tf.nest.map_structure(lambda x: tf.Variable(x, trainable=False), arrays_of(spec, values))


def rows_of(columns: Nest, place: Tensor) -> Nest:
    """Returns the rows of the columns at these places, [*place.shape, ...]."""
    return tf.nest.map_structure(lambda column: tf.gather(column, place), columns)
