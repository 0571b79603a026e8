"""Returns and lengths of episodes, over rollouts that begin and end anywhere within them.

Workers, which have no TensorFlow, add up the same from arrays (`rl.workers.worker.EpisodeSums`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from rl.ops.loops import Max, Metrics, Min, Sum
from rl.types import Tensor, Trajectory


class Running(NamedTuple):
    """Return and length so far of the running episodes, float32: [B], or [T, B] after each of T steps."""

    episode_return: Any
    length: Any

    def after(self, goes_on: Tensor, reward: Tensor, counted: Tensor) -> Running:
        """After one more step. goes_on [B]: 0 where it begins a new episode; counted [B]: 1 where it is a
        step of an episode, 0 where it is an ignored one."""
        return Running(self.episode_return * goes_on + reward, self.length * goes_on + counted)


class Episodes(NamedTuple):
    """The episodes of a rollout, after each of its steps."""

    running: Running  # [T, B]
    ended: Tensor  # [T, B] bool


def over_rollout(start: Running, goes_on: Tensor, trajectory: Trajectory) -> Running:
    """The running episodes after each step of a trajectory, [T, B].

    start: before its first step, [B]; goes_on: as in `Running.after`, [T, B].
    """
    reward, counted = trajectory.reward, trajectory.mask
    steps = reward.shape[0]
    array = tf.TensorArray(tf.float32, steps, element_shape=reward.shape[1:])

    def body(t: Tensor, running: Running, arrays: Running) -> tuple[Any, ...]:
        running = running.after(tf.gather(goes_on, t), tf.gather(reward, t), tf.gather(counted, t))
        return t + 1, running, Running(*(each.write(t, x) for each, x in zip(arrays, running, strict=True)))

    first = (tf.constant(0), start, Running(array, array))
    arrays = tf.while_loop(lambda t, *_: t < steps, body, first, maximum_iterations=steps)[2]
    return Running(*(each.stack() for each in arrays))


def sums(episodes: Episodes, mask: Tensor) -> Metrics:
    """Sums over a rollout's finished episodes, and its transitions. mask: of the trajectory, [T, B]."""
    (episode_return, length), ended = episodes.running, tf.cast(episodes.ended, tf.float32)
    return {
        "episodes": Sum(tf.reduce_sum(ended)),
        "episode_return": Sum(tf.reduce_sum(episode_return * ended)),
        "episode_return_min": Min(tf.reduce_min(tf.where(episodes.ended, episode_return, np.inf))),
        "episode_return_max": Max(tf.reduce_max(tf.where(episodes.ended, episode_return, -np.inf))),
        "episode_length": Sum(tf.reduce_sum(length * ended)),
        "transitions": Sum(tf.reduce_sum(mask)),
    }
