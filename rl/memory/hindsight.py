"""Hindsight experience replay: Andrychowicz et al. 2017, https://arxiv.org/abs/1707.01495."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.memory.contract import HindsightHParams
from rl.memory.registry import register
from rl.memory.ring import TRANSITION
from rl.memory.spec import MemorySpec
from rl.memory.uniform import Uniform
from rl.ops import random
from rl.registry import check_hparams
from rl.spaces import ACHIEVED_GOAL, DESIRED_GOAL
from rl.types import Batch, Nest, Tensor, Trajectory


@register
class Hindsight(Uniform):
    """Uniform replay, most of whose transitions are told that a goal was meant which their episode reached.

    The paper's strategy `future` (section 4.5): with the chance k / (k + 1), k = `hindsight_goals`, a sampled
    transition's `desired_goal` becomes the `achieved_goal` of a uniformly drawn later observation of the same
    episode, from the transition's successor to the last one that is stored. Its reward is computed anew
    (`MemorySpec.goal_reward`), and it terminates where it reaches that goal, if goals end episodes.

    Each row has the number of its environment's episode, of which the autoreset row holds the last
    observation. So rows of one number are neighbours, and the last of them is found by bisection.
    """

    def __init__(self, spec: MemorySpec, hparams: HindsightHParams) -> None:
        check_hparams(hparams, HindsightHParams, "memory hindsight")
        super().__init__(spec, hparams)
        self.goal_reward = spec.goal_reward
        self.share = hparams.hindsight_goals / (hparams.hindsight_goals + 1)
        zeros = tf.zeros([self.ring.places], tf.int64)
        self._episode = tf.Variable(zeros, trainable=False, name="episode")  # [L]
        zeros = tf.zeros([spec.num_envs], tf.int64)
        self._next_episode = tf.Variable(zeros, trainable=False, name="next_episode")  # [B] of the next row

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return {**super().variables, "episode": self._episode, "next_episode": self._next_episode}

    def add(self, trajectory: Trajectory) -> None:
        """Appends T rows [T, B]; the row after an autoreset step begins an episode."""
        resets = tf.cast(tf.convert_to_tensor(trajectory.mask) <= 0, tf.int64)  # [T, B]
        number = self._next_episode + tf.cumsum(resets, 0, exclusive=True)  # [T, B]
        count = int(np.prod(resets.shape))
        place = self.ring.wrap(self.ring.position * self.ring.num_envs + tf.range(count))
        self.ring.add(trajectory)
        self._episode.scatter_update(tf.IndexedSlices(tf.reshape(number, [count]), place))
        self._next_episode.assign(number[-1] + resets[-1])

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """Draws a batch of `batch_size` transitions as `Uniform.sample` does, and gives most of them another
        goal, as the class says. seed: int32 [2]; step: not used."""
        place_seed, goal_seed = random.split(seed, 2)
        return self._in_hindsight(super().sample(place_seed, step), goal_seed)

    def _in_hindsight(self, batch: Batch, seed: Tensor) -> Batch:
        """The batch, in which the drawn transitions have another goal."""
        ring, later = self.ring, self.later(batch.index)  # [N]
        noise = random.uniform(seed, [2, self.batch_size])
        chosen = (noise[0] < self.share) & (later > 0)  # [N]; 0: an empty slot
        ahead = 1 + tf.cast(noise[1] * tf.cast(later, tf.float32), tf.int32)  # [N] rows, in [1, later]
        place = ring.wrap(batch.index + tf.minimum(ahead, later) * ring.num_envs)
        goal = ring.observation(place)[ACHIEVED_GOAL]  # [N, ...]
        reward, terminated = self.goal_reward(batch.next_observation[ACHIEVED_GOAL], goal)  # [N], [N]
        return batch._replace(
            observation=_with_goal(batch.observation, goal, chosen),
            next_observation=_with_goal(batch.next_observation, goal, chosen),
            reward=tf.where(chosen, reward, batch.reward),
            # What terminated before is an episode's last step, whose only later goal is the one it reached.
            discount=tf.where(chosen & terminated, 0.0, batch.discount),
        )

    def later(self, place: Tensor) -> Tensor:
        """Returns how many stored rows follow those at `place` [N] in their episodes, int32 [N]."""
        ring, episode = self.ring, self._episode
        most = ring.position - 1 - place // ring.num_envs
        most = tf.where(most < 0, most + ring.rows, most)  # [N] rows up to the newest one
        own = tf.gather(episode, place)

        def halved(step: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
            further = found + step
            there = ring.wrap(place + tf.minimum(further, most) * ring.num_envs)
            within = (further <= most) & (tf.gather(episode, there) == own)
            return step // 2, tf.where(within, further, found)

        bits = ring.rows.bit_length()
        first = (tf.constant(2 ** (bits - 1)), tf.zeros_like(place))
        return tf.while_loop(lambda step, _: step > 0, halved, first, maximum_iterations=bits)[1]

    def check_valid(self) -> None:
        """Raises ValueError when ring or episode numbers are broken. Eager, on the host: slow."""
        super().check_valid()
        ring = self.ring
        position, filled = int(ring.position), int(ring.filled)
        order = (position - filled + np.arange(filled)) % ring.rows  # oldest first
        reset = (ring.variables["flags"].numpy().reshape(ring.rows, -1)[order] & TRANSITION) == 0  # [R, B]
        number = self._episode.numpy().reshape(ring.rows, -1)[order]
        following = np.concatenate([number[1:], self._next_episode.numpy()[None]])
        wrong = filled > 0 and following - number != reset
        if np.any(wrong):
            row, env = np.argwhere(wrong)[0]
            raise ValueError(
                f"replay row {order[row]}, environment {env}: the next row's episode is "
                f"{following[row, env]} after {number[row, env]}"
            )


def _with_goal(observation: Nest, goal: Tensor, chosen: Tensor) -> Any:
    """Returns observations [N, ...] with another desired goal where `chosen` [N]."""
    desired = observation[DESIRED_GOAL]
    chosen = tf.reshape(chosen, [-1] + [1] * (desired.shape.rank - 1))
    return {**observation, DESIRED_GOAL: tf.where(chosen, goal, desired)}
