"""A memory of sequences from files: `memory=dataset` for agents with recurrent models."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.memory.contract import DatasetSequencesHParams
from rl.memory.dataset import FromFiles, columns_of, data_of, priorities_of, rows_of
from rl.memory.spec import MemorySpec
from rl.registry import check_hparams
from rl.spaces import space_spec
from rl.types import SequenceBatch, Tensor, Trajectory


class DatasetSequences(FromFiles):
    """Episodes of the data set cut into sequences of `unroll_length` steps, all equally likely, or
    prioritized with `prioritized`.

    Each step of an episode is learned from in exactly one sequence. The `burn_in` steps before a sequence
    come along, to compute the network's state (Kapturowski et al. 2019, R2D2, section 3); the unknown state
    before these is taken as zeros. Steps before the episode's beginning or after its end have mask 0; those
    after its end are terminated, too, since they lead to no observation. After a step of mask 0 the network's
    state is reset (`rl.models.torso.unroll`), so an episode's first step has the same state as when it was
    played. Where the agent's `trajectory_extras` ask for them, each step comes with `return_to_go`, the
    undiscounted sum of its episode's rewards from it on, and `episode_step`, the steps before it.

    Args:
        spec: with `data`.
        hparams: `DatasetSequencesHParams`, and those of priorities where the algorithm has them.

    Raises:
        UsageError: there are no data, or the hparams do not fit together.
    """

    experiences = ("sequence",)  # of the agents that it serves

    def __init__(self, spec: MemorySpec, hparams: DatasetSequencesHParams) -> None:
        check_hparams(hparams, DatasetSequencesHParams, "memory dataset of sequences")
        data = data_of(spec)
        self.batch_size, self.burn_in = hparams.batch_size, hparams.burn_in
        self.length = hparams.burn_in + hparams.unroll_length  # steps; there is one observation more
        self._observation = columns_of(space_spec(spec.observation_space), data.observation)
        self._action = columns_of(space_spec(spec.action_space), data.action)
        self._reward, self._terminated, self._truncated = (
            tf.Variable(column, trainable=False) for column in (data.reward, data.terminated, data.truncated)
        )
        self._return_to_go = None
        if "return_to_go" in spec.extras:
            self._return_to_go = tf.Variable(np.float32(data.returns_to_go()), trainable=False)
        self._extras = spec.extras
        first, begin, end, episode = sequence_columns(data.lengths, hparams.unroll_length)
        self.count = len(first)
        # int64: as in `rl.memory.dataset`.
        self._first, self._begin, self._end, self._episode = (
            tf.Variable(column, trainable=False) for column in (first, begin, end, episode)
        )
        self.tree = priorities_of(hparams, self.count)
        self._state_spec = tf.nest.map_structure(
            lambda x: tf.TensorSpec([self.batch_size, *x.shape[1:]], x.dtype), spec.recurrent_state
        )

    def sample(self, seed: Tensor, step: Tensor) -> SequenceBatch:
        """Draws a batch of `batch_size` sequences; the states that they begin with are zeros.

        Args:
            seed: int32 [2].
            step: integer scalar, updates so far, by which `Priorities.draw` weighs.
        """
        index, sample_weight, mask = self.draw(seed, self.batch_size, step)
        first, begin, end, episode = (
            tf.gather(each, index) for each in (self._first, self._begin, self._end, self._episode)
        )  # [N]
        steps = first - self.burn_in + tf.range(self.length + 1, dtype=tf.int64)[:, None]  # [L+1, N]
        place = tf.clip_by_value(steps, begin, end) + episode  # of observations, one more for each episode
        inside = tf.logical_and(steps >= begin, steps < end)[:-1]  # [L, N]
        beyond = (steps >= end)[:-1]
        row = tf.clip_by_value(steps, begin, end - 1)[:-1]
        trajectory = Trajectory(
            observation=rows_of(self._observation, place),
            action=rows_of(self._action, row),
            reward=tf.where(inside, tf.gather(self._reward, row), 0.0),
            terminated=tf.logical_or(beyond, tf.logical_and(inside, tf.gather(self._terminated, row))),
            truncated=tf.logical_and(inside, tf.gather(self._truncated, row)),
            mask=tf.cast(inside, tf.float32),
            extras=self._known(row, row - begin, inside),
            recurrent_state=tf.nest.map_structure(lambda x: tf.zeros(x.shape, x.dtype), self._state_spec),
        )
        return SequenceBatch(trajectory, sample_weight, index, mask)

    def _known(self, row: Tensor, step: Tensor, inside: Tensor) -> dict[str, Tensor]:
        """What the agent asks for of steps [L, N] beside what they are, 0 where there are none. row, step: of
        each among all steps, and in its episode."""
        found = {"episode_step": tf.cast(step, tf.float32)}
        if self._return_to_go is not None:
            found["return_to_go"] = tf.gather(self._return_to_go, row)
        return {name: tf.where(inside, x, 0.0) for name, x in found.items() if name in self._extras}


def sequence_columns(lengths: np.ndarray, unroll_length: int) -> tuple[np.ndarray, ...]:
    """Cuts episodes into sequences.

    Args:
        lengths: int [E], steps of each episode.
        unroll_length: steps of a sequence; the last one of an episode may have fewer.

    Returns:
        first: int64 [S], index of each sequence's first step among all steps.
        begin, end: int64 [S], indices of its episode's first step, and of the step after the last one.
        episode: int64 [S], index of its episode.
    """
    lengths = np.asarray(lengths, np.int64)
    counts = -(-lengths // unroll_length)
    episode = np.repeat(np.arange(len(lengths)), counts)
    end = np.cumsum(lengths)
    place = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)  # in the episode
    begin = (end - lengths)[episode]
    return begin + place * unroll_length, begin, end[episode], episode
