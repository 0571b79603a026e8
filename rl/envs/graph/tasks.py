"""Environments that are many tasks: what an agent is to do is drawn, and it is not told."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.envs.graph.base import GraphEnv
from rl.errors import UsageError
from rl.types import Nest, Tensor

BANDS = 10  # of the held-out split
CHOICES = ("all", "train", "test")


class TaskPhysics(NamedTuple):
    """The state of B environments, each with a task."""

    task: Nest  # [B, ...] stays for the episode
    place: Nest  # [B, ...] what moves


class TaskEnv(GraphEnv):
    """B environments, each of a task that is drawn with the episode.

    A subclass writes `draw`, `begin` and `move` in place of `initial` and `dynamics`; its `observe` gets
    `TaskPhysics` and hides the task.

    Args:
        num_envs, max_episode_steps: as of `GraphEnv`.
        tasks: "all", or one of two halves without a common task (`part`): "train", "test".

    Attributes:
        keeps_tasks: whether an episode has the task of the one before in its environment; whoever adapts to a
            task says so.
        rows_of_task: how many neighbouring environments have one task; likewise.

    Raises:
        UsageError: `tasks` is none of the three.
    """

    keeps_tasks = False
    rows_of_task = 1

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, tasks: str = "all") -> None:
        super().__init__(num_envs, max_episode_steps)
        if tasks not in CHOICES:
            raise UsageError(f"tasks={tasks!r}: needs one of {', '.join(CHOICES)}")
        self.tasks = tasks

    def draw(self, seed: Tensor) -> Nest:
        """Draws tasks [B, ...]."""
        raise NotImplementedError

    def begin(self, task: Nest, seed: Tensor) -> Nest:
        """Returns where an episode of each task begins, [B, ...]."""
        raise NotImplementedError

    def move(self, task: Nest, place: Nest, action: Nest, seed: Tensor) -> tuple[Nest, Tensor, Tensor]:
        """Returns place [B, ...], reward [B] float32, terminated [B] bool after a (clipped) action."""
        raise NotImplementedError

    def initial(self, seed: Tensor) -> TaskPhysics:
        """Draws tasks, and begins an episode of each."""
        count = self.rows_of_task
        task = tf.nest.map_structure(lambda x: tf.repeat(x[::count], count, 0), self.draw(seed))
        return TaskPhysics(task, self.begin(task, seed))

    def dynamics(
        self, physics: TaskPhysics, action: Nest, seed: Tensor
    ) -> tuple[TaskPhysics, Tensor, Tensor]:
        """Moves; the task stays."""
        place, reward, terminated = self.move(physics.task, physics.place, action, seed)
        return physics._replace(place=place), reward, terminated

    def next_episode(self, physics: TaskPhysics, seed: Tensor) -> TaskPhysics:
        """Returns the physics [B, ...] that the episodes after these begin with: of new tasks, or of the same
        ones where `keeps_tasks`."""
        if not self.keeps_tasks:
            return self.initial(seed)
        return physics._replace(place=self.begin(physics.task, seed))


def part(tasks: str, unit: Tensor) -> Tensor:
    """Returns numbers of [0, 1) that are uniform over the part of it that `tasks` says, of `unit`, uniform.

    "all" is [0, 1) itself. Of its ten bands of equal width the first, third ... are "train", the others
    "test": no task of one is a task of the other, and both are spread alike.
    """
    if tasks == "all":
        return unit
    band = tf.floor(unit * (BANDS // 2))
    inside = unit * (BANDS // 2) - band
    first = 1.0 if tasks == "test" else 0.0
    found = (2.0 * band + first + inside) / BANDS
    return tf.minimum(found, (2.0 * band + first + 1.0) / BANDS - 1e-6)  # rounding stays within the band
