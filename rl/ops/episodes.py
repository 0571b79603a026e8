"""Returns and lengths of episodes, over rollouts that begin and end anywhere within them.

Workers, which have no TensorFlow, compute the same from arrays (`rl.runners.collect.EpisodeSums`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from rl.ops.loops import Max, Metrics, Min, Sum
from rl.ops.rows import Rows
from rl.ops.trajectories import side_by_side
from rl.types import Tensor, Trajectory


class Running(NamedTuple):
    """Return and length so far of the running episodes, float32: [B], or [T, B] after each of T steps."""

    episode_return: Any
    length: Any

    def after(self, goes_on: Tensor, reward: Tensor, counted: Tensor) -> Running:
        """Returns them after one more step. goes_on [B]: 0 where the step begins a new episode; counted [B]:
        1 where the step belongs to an episode, 0 where it is ignored (an autoreset)."""
        before = tf.where(goes_on > 0.0, self.episode_return, 0.0)  # NaN ends with its episode
        return Running(before + reward, self.length * goes_on + counted)


class Episodes(NamedTuple):
    """The episodes of a rollout, after each of its steps."""

    running: Running  # [T, B]
    ended: Tensor  # [T, B] bool
    regret: Any = ()  # [T, B], of bandits


class Team(NamedTuple):
    """Combines the rows of agents into environments: the last axis has the agents' rows one after another.

    An environment's episode lasts until its last agent has left.
    """

    agents: int  # rows of each environment; with 1, nothing changes
    share: float  # factor from the sum of the agents' rewards to the team's reward

    def reward(self, reward: Tensor) -> Tensor:
        """Returns the team's reward, [..., B], from that of each agent, [..., B * agents]."""
        if self.agents == 1:
            return reward
        return tf.reduce_sum(self._apart(reward), -1) * self.share

    def any(self, mask: Tensor) -> Tensor:
        """Returns 1 where any agent's mask is 1, [..., B], from the agents' masks, [..., B * agents]."""
        return mask if self.agents == 1 else tf.reduce_max(self._apart(mask), -1)

    def new(self, terminated: Tensor, gone: Tensor) -> Tensor:
        """Returns which agents terminate at this step, [B * agents], without those that had left before."""
        return terminated if self.agents == 1 else tf.logical_and(terminated, tf.logical_not(gone))

    def ended(self, terminated: Tensor, truncated: Tensor, mask: Tensor) -> Tensor:
        """Returns which environments' episodes end, bool [..., B]; the arguments are of a trajectory."""
        ended = tf.logical_or(terminated, truncated)
        if self.agents == 1:
            return ended
        over = tf.reduce_all(self._apart(tf.logical_or(ended, mask == 0.0)), -1)
        return tf.logical_and(over, self.any(mask) > 0.0)

    def _apart(self, rows: Tensor) -> Tensor:
        return tf.reshape(rows, [*rows.shape[:-1], -1, self.agents])


def over_rollout(start: Running, goes_on: Tensor, reward: Tensor, counted: Tensor) -> Running:
    """Returns the running episodes after each step of a rollout, [T, B].

    start: before its first step, [B]; reward and the rest: as in `Running.after`, [T, B].
    """
    steps = reward.shape[0]
    number = tf.TensorSpec(reward.shape[1:], tf.float32)
    rows = Rows(Running(number, number), steps)

    def body(t: Tensor, running: Running, arrays: list[Any]) -> tuple[Any, ...]:
        running = running.after(tf.gather(goes_on, t), tf.gather(reward, t), tf.gather(counted, t))
        return t + 1, running, rows.write(arrays, t, running)

    first = (tf.constant(0), start, rows.arrays())
    arrays = tf.while_loop(lambda t, *_: t < steps, body, first, maximum_iterations=steps)[2]
    found: Running = rows.stack(arrays)
    return found


def own_sums(start: Tensor, reward: Tensor, goes_on: Tensor, ended: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the returns of A agents: summed over the episodes that end in a rollout, [A], and so far in
    those that run on after it, [B, A].

    No loop over its steps: between the end of an episode and the next one is but a reset, which pays nothing.

    start: returns so far before its first step, [B, A]; reward: of each agent, [T, B, A]; goes_on: as in
        `Running.after`, [T, B]; ended: which steps end an episode, bool [T, B].
    """
    steps = tf.range(1, reward.shape[0] + 1)[:, None]  # [T, 1]
    until = tf.reduce_max(tf.where(ended, steps, 0), 0)  # [B] steps before the last end and at it; 0: no end
    finished, any_ended = (steps <= until[None])[..., None], (until > 0)[:, None]  # [T, B, 1], [B, 1]
    start = tf.where(goes_on[0][:, None] > 0.0, start, 0.0)
    before = tf.reduce_sum(tf.where(finished, reward, 0.0), 0) + tf.where(any_ended, start, 0.0)
    after = tf.reduce_sum(tf.where(finished, 0.0, reward), 0) + tf.where(any_ended, 0.0, start)
    return tf.reduce_sum(before, 0), after


def of_first(ended: Tensor) -> Tensor:
    """Returns 1 for the steps of each environment's first episode, [T, B]. ended: which steps end an episode,
    bool [T, B]."""
    number = tf.cast(ended, tf.float32)
    return tf.cast(tf.cumsum(number, 0, exclusive=True) == 0.0, tf.float32)


def first_returns(reward: Tensor, ended: Tensor) -> Tensor:
    """Returns the sum of rewards [T, B] over the first episode of each environment, [B]."""
    return tf.reduce_sum(reward * of_first(ended), 0)


def part_returns(trajectory: Trajectory, parts: int) -> Tensor:
    """Returns the sum of rewards over each environment's first episode in each of `parts` equal parts of a
    trajectory [T, B], without steps after the part: [parts, B]."""
    cut = side_by_side(trajectory, parts)
    ended = tf.logical_or(cut.terminated, cut.truncated)
    return tf.reshape(first_returns(cut.reward * cut.mask, ended), [parts, -1])


def sums(episodes: Episodes, mask: Tensor) -> Metrics:
    """Sums over a rollout's finished episodes, and its transitions. mask: of the trajectory, [T, B]."""
    (episode_return, length), ended = episodes.running, tf.cast(episodes.ended, tf.float32)
    known = (
        {} if isinstance(episodes.regret, tuple) else {"regret": Sum(tf.reduce_sum(episodes.regret * mask))}
    )
    return known | {
        "episodes": Sum(tf.reduce_sum(ended)),
        "episode_return": Sum(tf.reduce_sum(tf.where(episodes.ended, episode_return, 0.0))),
        "episode_return_min": Min(tf.reduce_min(tf.where(episodes.ended, episode_return, np.inf))),
        "episode_return_max": Max(tf.reduce_max(tf.where(episodes.ended, episode_return, -np.inf))),
        "episode_length": Sum(tf.reduce_sum(length * ended)),
        "transitions": Sum(tf.reduce_sum(mask)),
    }
