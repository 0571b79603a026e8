"""What the multi-agent particle environments share: discs that push each other in the plane.

Source: Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments", 2017,
https://arxiv.org/abs/1706.02275, and Mordatch and Abbeel 2017, https://arxiv.org/abs/1703.04908, as of the
package `mpe2` 1.1.1; `tests/envs/test_particles.py` holds every step against it. What differs: numbers are
float32 (there float64), of the options there are those that an environment's class names, nobody speaks
(agents of these environments are silent), and two discs at the very same point do not push each other (there
the result is NaN).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.multi_agent import MultiAgentEnv
from rl.ops import random
from rl.types import Tensor

TAU = 0.1  # s between two states
DAMPING = 0.25  # share of the velocity that is lost in a step
CONTACT_FORCE = 100.0
CONTACT_MARGIN = 1e-3  # over which contact begins softly
ACTIONS = 5  # none, left, right, down, up
MARK = 0.05  # radius of marks on the ground, in pictures
COLOURS = {"agent": (80, 80, 217), "adversary": (217, 80, 80)}  # of teams, in pictures


class ParticlesPhysics(NamedTuple):
    """Where B times A agents and L landmarks are, x and y each."""

    position: Tensor  # [B, A, 2]
    velocity: Tensor  # [B, A, 2]
    landmarks: Tensor  # [B, L, 2] positions, which never change


class Particles(MultiAgentEnv):
    """Agents that accelerate left, right, down or up among landmarks.

    A subclass says who there is, before it calls `__init__`, and writes `rewards` and `observe`.

    Args:
        num_envs: B.
        max_episode_steps: steps after which an episode is truncated, mpe2's `max_cycles`.
        continuous_actions: whether an action is five numbers in [0, 1], of which the first means nothing and
            the others pull left, right, down and up; else it is the number of one of them.
    """

    max_episode_steps = 25
    num_landmarks: int  # L
    sizes: Sequence[float]  # [A] radius
    accelerations: Sequence[float]  # [A]
    max_speeds: Sequence[float]  # [A] inf: none
    landmark_size = 0.0  # radius of landmarks that are in the way; 0: they are marks on the ground
    landmark_range = 1.0  # landmarks begin within -landmark_range .. landmark_range

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, continuous_actions: bool = False
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.continuous_actions = continuous_actions
        discrete = spaces.Discrete(ACTIONS)
        self.action_space = spaces.Box(0.0, 1.0, (ACTIONS,), np.float32) if continuous_actions else discrete
        agents = len(self.agent_names)
        others = [[j for j in range(agents) if j != i] for i in range(agents)]
        self._others = np.array(others, np.int32).reshape(agents, agents - 1)  # [A, A-1] whom each sees

    def rewards(self, physics: ParticlesPhysics) -> Tensor:
        """Returns what each agent gets for where all are now, [B, A]."""
        raise NotImplementedError

    def initial(self, seed: Tensor) -> ParticlesPhysics:
        """Draws all positions, agents within -1 .. 1, at rest."""
        agents = len(self.agent_names)
        places = random.uniform(seed, [self.num_envs, agents + self.num_landmarks, 2], -1.0, 1.0)
        position, landmarks = places[:, :agents], places[:, agents:] * self.landmark_range
        return ParticlesPhysics(position, tf.zeros_like(position), landmarks)

    def dynamics(
        self, physics: ParticlesPhysics, action: Tensor, seed: Tensor
    ) -> tuple[ParticlesPhysics, Tensor, Tensor]:
        """Makes one step of 0.1 s: places move by the velocities of before, then these change."""
        force = self._pull(action) + self._push(physics)  # [B, A, 2]; all masses are 1
        position = physics.position + TAU * physics.velocity
        velocity = physics.velocity * (1.0 - DAMPING) + TAU * force
        speed = tf.norm(velocity, axis=-1, keepdims=True)  # [B, A, 1]
        limit = tf.constant(self.max_speeds, tf.float32)[:, None]
        velocity = tf.where(speed > limit, velocity / tf.maximum(speed, 1e-9) * limit, velocity)
        moved = ParticlesPhysics(position, velocity, physics.landmarks)
        return moved, self.rewards(moved), tf.zeros(position.shape[:2], tf.bool)

    def draw(self, physics: ParticlesPhysics) -> np.ndarray:
        """Returns the first field, uint8 [320, 320, 3]: landmarks dark, each team in a colour of its own."""
        radius = self.landmark_size or MARK
        landmarks = [(each, radius, (64, 64, 64)) for each in np.array(physics.landmarks[0])]
        rows = zip(np.array(physics.position[0]), self.sizes, self.agent_names, strict=True)
        agents = [(place, size, COLOURS[name.rpartition("_")[0]]) for place, size, name in rows]
        return draw_discs(landmarks + agents if self.landmark_size else agents + landmarks)

    def relative(self, physics: ParticlesPhysics) -> tuple[Tensor, Tensor]:
        """Returns where landmarks and the other agents are, seen from each agent: [B, A, L, 2] and
        [B, A, A-1, 2]."""
        own = physics.position[:, :, None]  # [B, A, 1, 2]
        return physics.landmarks[:, None] - own, tf.gather(physics.position, self._others, axis=1) - own

    def touching(self, physics: ParticlesPhysics) -> Tensor:
        """Returns which agents overlap, bool [B, A, A], nobody itself."""
        reach = np.add.outer(self.sizes, self.sizes).astype(np.float32)  # [A, A]
        apart = tf.norm(physics.position[:, :, None] - physics.position[:, None], axis=-1)  # [B, A, A]
        return (apart < reach) & ~np.eye(len(reach), dtype=bool)

    def _pull(self, action: Tensor) -> Tensor:
        """Returns the forces of the agents' own will, [B, A, 2]."""
        if not self.continuous_actions:
            action = tf.one_hot(action, ACTIONS)  # [B, A, 5]
        left, right, down, up = tf.unstack(action, axis=-1)[1:]  # [B, A] each
        will = tf.stack([right - left, up - down], -1)
        return will * tf.constant(self.accelerations, tf.float32)[:, None]

    def _push(self, physics: ParticlesPhysics) -> Tensor:
        """Returns the sum of the forces by which those in contact push each agent away, [B, A, 2]."""
        bodies, sizes = physics.position, np.array(self.sizes)
        if self.landmark_size:
            bodies = tf.concat([bodies, physics.landmarks], 1)  # [B, A (+ L), 2]
            sizes = np.concatenate([sizes, np.full(self.num_landmarks, self.landmark_size)])
        reach = np.add.outer(self.sizes, sizes).astype(np.float32)  # [A, A (+ L)]
        away = physics.position[:, :, None] - bodies[:, None]  # [B, A, A (+ L), 2]
        distance = tf.norm(away, axis=-1)  # [B, A, A (+ L)]
        depth = CONTACT_MARGIN * tf.math.softplus((reach - distance) / CONTACT_MARGIN)  # soft at the rim
        strength = tf.math.divide_no_nan(CONTACT_FORCE * depth, distance)  # 0 from oneself
        return tf.reduce_sum(strength[..., None] * away, 2)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Returns parts [B, A, ...] one after another, as float32 [B, A, n]."""
    return tf.concat([tf.reshape(each, [*each.shape[:2], -1]) for each in parts], -1)


def draw_discs(discs: Sequence[tuple[np.ndarray, float, Sequence[int]]], reach: float = 1.3) -> np.ndarray:
    """Returns uint8 [320, 320, 3] of discs (centre, radius, colour) within -reach .. reach, later ones on
    top."""
    axis = np.linspace(-reach, reach, 320)
    picture = np.full((320, 320, 3), 255, np.uint8)
    for centre, radius, colour in discs:
        inside = (axis - centre[0]) ** 2 + (-axis[:, None] - centre[1]) ** 2 < radius**2  # up is up
        picture[inside] = colour
    return picture
