"""WheelBandit: the wheel of Riquelme et al. 2018, in which the arms that pay seldom seem worth a try."""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.types import Nest, Tensor

ENV_ID = "WheelBandit-v0"
ARMS, SURE, USUAL, BEST, NOISE = 5, 1.2, 1.0, 50.0, 0.01  # what arms pay, and its standard deviation


@register
class WheelBandit(GraphEnv):
    """Choose one of five arms for a point of the unit disc; one step.

    Riquelme et al. 2018, "Deep Bayesian bandits showdown", https://arxiv.org/abs/1802.09127, section 5.3.
    Physics [B, 2] float32: the point, drawn uniformly for each episode. Arm 0 pays 1.2 everywhere, the others
    1.0; beyond the radius `delta` one of them pays 50: arm 1 where both coordinates are positive, 2 where the
    first alone is, 3 where the second alone is, 4 where neither is. All pay noise of deviation 0.01 besides.
    Every step terminates.

    Args:
        delta: the radius, in (0, 1). The greater, the more seldom anything but arm 0 pays: 1 - delta^2 of
            the points lie beyond it.

    Raises:
        UsageError: `delta` is no such radius.
    """

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, delta: float = 0.5) -> None:
        super().__init__(num_envs, max_episode_steps)
        if not 0.0 < delta < 1.0:
            raise UsageError(f"{ENV_ID}: delta={delta} is no radius within the unit disc, take one in (0, 1)")
        self.delta = delta
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(ARMS)

    def initial(self, seed: Tensor) -> Tensor:
        """Draws points [B, 2]."""
        drawn = random.uniform(seed, [self.num_envs, 2])
        radius, angle = tf.sqrt(drawn[:, 0]), 2.0 * math.pi * drawn[:, 1]
        return radius[:, None] * tf.stack([tf.cos(angle), tf.sin(angle)], 1)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pays the arm's reward."""
        reward = tf.gather(self._expected(physics), tf.cast(action, tf.int32), batch_dims=1)
        noise = NOISE * random.normal(random.fold_in(seed, 1), [self.num_envs])
        return physics, reward + noise, tf.ones([self.num_envs], tf.bool)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns the point."""
        return physics

    def regret(self, observation: Nest, action: Nest, reward: Tensor) -> Tensor:
        """Returns what the best arm would have paid more, expected: float32 [T, B] of points [T, B, 2] and
        arms [T, B]."""
        expected = self._expected(observation)  # [..., 5]
        return tf.reduce_max(expected, -1) - tf.reduce_sum(expected * tf.one_hot(action, ARMS), -1)

    def _expected(self, point: Tensor) -> Tensor:
        """Returns each arm's expected reward, [..., 5]."""
        negative = tf.cast(point <= 0.0, tf.int32)  # [..., 2]
        best = tf.one_hot(1 + 2 * negative[..., 0] + negative[..., 1], ARMS)
        beyond = tf.cast(tf.norm(point, axis=-1) > self.delta, tf.float32)[..., None]
        usual = tf.constant([SURE, *[USUAL] * (ARMS - 1)])
        return usual + beyond * best * (BEST - USUAL)
