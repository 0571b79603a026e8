"""Trajectories: their rewards, their ends, and their parts for minibatches and microbatches."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.ops.nests import swap_time, without_last
from rl.types import SequenceBatch, Tensor, Trajectory


def take(batch: Any, index: Tensor) -> Any:
    """Takes the examples of a batch at `index`, int32 [n].

    Of a `Trajectory` or `SequenceBatch` an example is one environment's whole sequence (their second axis,
    and the first of the recurrent state); of any other nest it is a place on the first axis.
    """
    if isinstance(batch, SequenceBatch):
        rest = _gather(SequenceBatch((), *batch[1:]), index, 0)  # type: ignore[arg-type]
        return rest._replace(trajectory=take(batch.trajectory, index))
    if isinstance(batch, Trajectory):
        rest = _gather(batch._replace(recurrent_state=()), index, 1)
        return rest._replace(recurrent_state=_gather(batch.recurrent_state, index, 0))
    return _gather(batch, index, 0)


def augmented(trajectory: Trajectory, augment: Any, gamma: float) -> Tensor:
    """Returns the rewards [T, B] after reward augmentation (`rl.envs.rewards`), 0 where the mask is; the
    environment's own where `augment` is None."""
    if augment is None:
        return trajectory.reward
    now = without_last(trajectory.observation)
    following = tf.nest.map_structure(lambda x: x[1:], trajectory.observation)
    reward = augment(now, trajectory.action, trajectory.reward, following, trajectory.terminated, gamma)
    return reward * trajectory.mask


def closed(trajectory: Trajectory) -> Trajectory:
    """Closes a trajectory [T, B], so that in a memory it needs no successor: workers' rollouts come in any
    order.

    Returns [T+1, B]: the added last row is an ignored step (mask 0) at the last observation, and the step
    before it is marked as truncated, so that n-step returns end there and bootstrap.
    """
    mask = trajectory.mask
    running = tf.logical_and(mask[-1:] > 0.0, tf.logical_not(trajectory.terminated[-1:]))
    truncated = tf.concat([trajectory.truncated[:-1], tf.logical_or(trajectory.truncated[-1:], running)], 0)

    def repeated(x: Tensor) -> Tensor:
        return tf.concat([x, x[-1:]], 0)

    def then_zero(x: Tensor) -> Tensor:
        return tf.concat([x, tf.zeros_like(x[-1:])], 0)

    return trajectory._replace(
        observation=tf.nest.map_structure(repeated, trajectory.observation),
        action=tf.nest.map_structure(repeated, trajectory.action),
        reward=then_zero(trajectory.reward),
        terminated=then_zero(trajectory.terminated),
        truncated=then_zero(truncated),
        mask=then_zero(mask),
        extras={name: repeated(x) for name, x in trajectory.extras.items()},
    )


def side_by_side(trajectory: Trajectory, parts: int) -> Trajectory:
    """Cuts a trajectory [T, B] into `parts` of equal length, side by side as further environments: [T /
    parts, parts * B], the first part first. Without the recurrent state."""
    length = trajectory.mask.shape[0] // parts

    def cut(x: Tensor) -> Tensor:
        x = tf.reshape(x, [parts, length, *x.shape[1:]])
        x = swap_time(x)
        return tf.reshape(x, [length, -1, *x.shape[3:]])

    def observed(x: Tensor) -> Tensor:
        last = tf.reshape(x[length::length], [1, -1, *x.shape[2:]])
        return tf.concat([cut(x[:-1]), last], 0)

    observation = tf.nest.map_structure(observed, trajectory.observation)
    rest = tf.nest.map_structure(cut, trajectory._replace(observation=(), recurrent_state=()))
    return rest._replace(observation=observation)


def newest(trajectory: Trajectory, steps: int) -> Trajectory:
    """Returns the last `steps` steps of a trajectory [T, B], with the observation after them, and without its
    recurrent state (that is of its first step)."""
    rest = trajectory._replace(observation=(), recurrent_state=())
    return tf.nest.map_structure(lambda x: x[-steps:], rest)._replace(
        observation=tf.nest.map_structure(lambda x: x[-(steps + 1) :], trajectory.observation)
    )


def _gather(nest: Any, index: Tensor, axis: int) -> Any:
    return tf.nest.map_structure(lambda x: tf.gather(x, index, axis=axis), nest)


def count(batch: Any) -> int:
    """Returns how many examples, in the sense of `take`, a batch has."""
    if isinstance(batch, SequenceBatch):
        return int(batch.mask.shape[0])
    return int(batch.mask.shape[1 if isinstance(batch, Trajectory) else 0])
