"""Navigation2D: a point that is to find a goal which it does not see.

Source: Finn et al. 2017, "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks", section 5.3,
https://arxiv.org/abs/1703.03400: goals of the unit square, velocities clipped to 0.1, 100 steps. The reward
is the negative distance, as in the authors' own code, where the paper says its square.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.tasks import TaskEnv, TaskPhysics, part
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "Navigation2D-v0"

SPEED = 0.1  # the most that a coordinate changes by in a step
NEAR = 0.01  # the goal is reached


@register
class Navigation2D(TaskEnv):
    """Move a point in the plane: minus its distance to a goal after each step, terminated within 0.01.

    A task is a goal [2], uniform in [-0.5, 0.5) squared, which is not seen. Observation [2]: the point,
    at first the origin. Action [2]: the move, in units of 0.1. At most 100 steps. `tasks` divides by the
    goal's first coordinate (`rl.envs.graph.tasks.part`).
    """

    max_episode_steps = 100
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def draw(self, seed: Tensor) -> Tensor:
        """Draws goals [B, 2]."""
        x, y = tf.unstack(random.uniform(seed, [self.num_envs, 2]), axis=1)
        return tf.stack([part(self.tasks, x), y], 1) - 0.5

    def begin(self, task: Tensor, seed: Tensor) -> Tensor:
        """Returns the origin, [B, 2]."""
        return tf.zeros([self.num_envs, 2])

    def move(
        self, task: Tensor, place: Tensor, action: Tensor, seed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Moves the point."""
        place += SPEED * action
        distance = tf.norm(place - task, axis=1)  # [B]
        return place, -distance, distance < NEAR

    def observe(self, physics: TaskPhysics) -> Tensor:
        """Returns the point, [B, 2]."""
        return physics.place
