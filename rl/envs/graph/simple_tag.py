"""simple_tag in tensors: slow adversaries hunt faster agents among obstacles.

Source: as of `rl/envs/graph/particles.py`, which also says what differs from the package `mpe2`
(`simple_tag_v3`): its options are num_good, num_adversaries, num_obstacles, continuous_actions and, called
max_episode_steps here, max_cycles. Observations that are shorter there end with zeros.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.particles import Particles, ParticlesPhysics, joined
from rl.envs.registry import register
from rl.errors import UsageError
from rl.types import Tensor

ENV_ID = "SimpleTag-v0"
CAUGHT = 10.0  # reward of the adversaries, lost by who is caught


@register
class SimpleTag(Particles):
    """Hunt, or run: 3 adversaries, an agent, 2 obstacles; 16 numbers, 5 actions, 10 for a catch, 25 steps.

    Every adversary gets 10 for each adversary that touches an agent. An agent loses 10 for each adversary
    that touches it, and something for leaving the field. Each sees its velocity and position, the obstacles
    and the others from where it is, and the velocities of agents other than itself; observations are as wide
    as the adversaries'. The state is all agents' observations, without the zeros that fill them up.
    """

    cooperative = False
    landmark_size = 0.2
    landmark_range = 0.9

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        num_good: int = 1,
        num_adversaries: int = 3,
        num_obstacles: int = 2,
        continuous_actions: bool = False,
    ) -> None:
        for name, number, least in (
            ("num_good", num_good, 1),
            ("num_adversaries", num_adversaries, 1),
            ("num_obstacles", num_obstacles, 0),
        ):
            if number < least:
                raise UsageError(f"{name} must be at least {least}, not {number}")
        hunters, prey = num_adversaries, num_good
        self.hunters, self.prey, self.num_landmarks = hunters, prey, num_obstacles
        self.agent_names = (
            *(f"adversary_{i}" for i in range(hunters)),
            *(f"agent_{i}" for i in range(prey)),
        )
        self.sizes = [0.075] * hunters + [0.05] * prey
        self.accelerations = [3.0] * hunters + [4.0] * prey
        self.max_speeds = [1.0] * hunters + [1.3] * prey
        width = 4 + 2 * num_obstacles + 2 * (hunters + prey - 1) + 2 * prey
        self.observation_space = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        whole = (hunters + prey) * width - 2 * prey  # a runner does not see its own velocity twice
        self.state_space = spaces.Box(-np.inf, np.inf, (whole,), np.float32)
        super().__init__(num_envs, max_episode_steps, continuous_actions)

    def rewards(self, physics: ParticlesPhysics) -> Tensor:
        """Returns [B, A]."""
        catches = tf.cast(self.touching(physics)[:, self.hunters :, : self.hunters], tf.float32)  # [B, G, H]
        hunters = tf.repeat(CAUGHT * tf.reduce_sum(catches, [1, 2])[:, None], self.hunters, 1)  # [B, H]
        outside = tf.reduce_sum(_outside(tf.abs(physics.position[:, self.hunters :])), -1)  # [B, G]
        return tf.concat([hunters, -CAUGHT * tf.reduce_sum(catches, -1) - outside], 1)

    def observe(self, physics: ParticlesPhysics) -> Tensor:
        """Returns [B, A, n], n = 16 by default."""
        hunters, prey = self._observations(physics)
        return tf.concat([hunters, tf.pad(prey, [[0, 0], [0, 0], [0, 2]])], 1)

    def state(self, physics: ParticlesPhysics) -> Tensor:
        """Returns [B, S], S = 62 by default."""
        return tf.concat([tf.reshape(each, [self.num_envs, -1]) for each in self._observations(physics)], -1)

    def _observations(self, physics: ParticlesPhysics) -> tuple[Tensor, Tensor]:
        """Returns what adversaries see, [B, H, n], and what agents see, [B, G, n - 2]."""
        landmarks, others = self.relative(physics)
        seen = joined([physics.velocity, physics.position, landmarks, others])  # [B, A, n - 2 G]
        runners = physics.velocity[:, self.hunters :]  # [B, G, 2]
        of_all = tf.repeat(runners[:, None], self.hunters, 1)  # [B, H, G, 2]
        rest = np.array([[j for j in range(self.prey) if j != i] for i in range(self.prey)], np.int32)
        of_rest = tf.gather(runners, rest.reshape(self.prey, self.prey - 1), axis=1)  # [B, G, G-1, 2]
        hunters = joined([seen[:, : self.hunters], of_all])
        return hunters, joined([seen[:, self.hunters :], of_rest])


def _outside(x: Tensor) -> Tensor:
    """Returns what it costs to be at coordinate x >= 0: nothing up to 0.9, 1 at the field's rim, then more,
    up to 10."""
    beyond = tf.minimum(tf.exp(2.0 * x - 2.0), 10.0)
    return tf.where(x < 0.9, 0.0, tf.where(x < 1.0, (x - 0.9) * 10.0, beyond))
