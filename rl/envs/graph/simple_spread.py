"""simple_spread in tensors: agents cover landmarks together and keep out of each other's way.

Source: as of `rl/envs/graph/particles.py`, which also says what differs from the package `mpe2`
(`simple_spread_v3`): its options are N, local_ratio, continuous_actions and, called max_episode_steps here,
max_cycles.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.particles import Particles, ParticlesPhysics, joined
from rl.envs.registry import register
from rl.errors import UsageError
from rl.types import Tensor

ENV_ID = "SimpleSpread-v0"
SIZE = 0.15  # radius of agents
ACCELERATION = 5.0


@register
class SimpleSpread(Particles):
    """Cover N landmarks with N agents: 6 N numbers each, 5 actions, minus distances and collisions, 25 steps.

    All get `1 - local_ratio` times minus the sum, over landmarks, of the distance to the nearest agent, and
    each agent `local_ratio` times minus the number of agents that it touches. An agent sees its velocity and
    position, the landmarks and the other agents from where it is, and 2 zeros for each of these, who say
    nothing. The state is all agents' observations.
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        N: int = 3,
        local_ratio: float = 0.5,
        continuous_actions: bool = False,
    ) -> None:
        if N < 1:
            raise UsageError(f"N must be at least 1, not {N}")
        if not 0.0 <= local_ratio <= 1.0:
            raise UsageError(f"local_ratio must be in [0, 1], not {local_ratio}")
        self.agent_names = tuple(f"agent_{i}" for i in range(N))
        self.num_landmarks, self.local_ratio = N, local_ratio
        self.sizes, self.accelerations, self.max_speeds = [SIZE] * N, [ACCELERATION] * N, [math.inf] * N
        self.shared_reward = local_ratio == 0.0
        self.observation_space = spaces.Box(-np.inf, np.inf, (6 * N,), np.float32)
        self.state_space = spaces.Box(-np.inf, np.inf, (6 * N * N,), np.float32)
        super().__init__(num_envs, max_episode_steps, continuous_actions)

    def rewards(self, physics: ParticlesPhysics) -> Tensor:
        """Returns [B, N]."""
        landmarks, _ = self.relative(physics)  # [B, N, N, 2]
        uncovered = tf.reduce_sum(tf.reduce_min(tf.norm(landmarks, axis=-1), 1), -1)  # [B]
        touched = tf.reduce_sum(tf.cast(self.touching(physics), tf.float32), -1)  # [B, N]
        return -uncovered[:, None] * (1.0 - self.local_ratio) - touched * self.local_ratio

    def observe(self, physics: ParticlesPhysics) -> Tensor:
        """Returns [B, N, 6 N]."""
        landmarks, others = self.relative(physics)
        return joined([physics.velocity, physics.position, landmarks, others, tf.zeros_like(others)])

    def state(self, physics: ParticlesPhysics) -> Tensor:
        """Returns [B, 6 N * N]."""
        return tf.reshape(self.observe(physics), [self.num_envs, -1])
