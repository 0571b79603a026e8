"""LinearBandit: a contextual bandit whose rewards are linear in the context, each episode one step."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.types import Nest, Tensor

ENV_ID = "LinearBandit-v0"


@register
class LinearBandit(GraphEnv):
    """Choose one of K arms, each paying by weights of its own times the context, and noise; one step.

    Physics [B, d] float32: the context, drawn anew for each episode from the sphere of radius 1. Arm a pays
    weights[a] . x + noise * N(0, 1), where the weights [K, d] are drawn once, by `seed`, from the same
    sphere. Every step terminates.

    Args:
        arms: K.
        features: d.
        noise: the rewards' standard deviation.
        seed: of the weights.

    Raises:
        UsageError: fewer than two arms, or no feature.
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        arms: int = 5,
        features: int = 5,
        noise: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        if arms < 2 or features < 1:
            raise UsageError(f"{ENV_ID}: needs two arms and a feature, not arms={arms}, features={features}")
        self.noise, self.features = noise, features
        drawn = np.random.default_rng(seed).normal(size=(arms, features))
        self.weights = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (features,), np.float32)
        self.action_space = spaces.Discrete(arms)

    def initial(self, seed: Tensor) -> Tensor:
        """Draws contexts [B, d]."""
        drawn = random.normal(seed, [self.num_envs, self.features])
        length = tf.maximum(tf.linalg.norm(drawn, axis=1, keepdims=True), 1e-6)
        return tf.clip_by_value(drawn / length, -1.0, 1.0)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pays the arm's reward."""
        reward = tf.gather(self._expected(physics), tf.cast(action, tf.int32), batch_dims=1)
        noise = self.noise * random.normal(random.fold_in(seed, 1), [self.num_envs])
        return physics, reward + noise, tf.ones([self.num_envs], tf.bool)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns the context."""
        return physics

    def regret(self, observation: Nest, action: Nest, reward: Tensor) -> Tensor:
        """Returns what the best arm would have paid more, expected: float32 [T, B] of contexts [T, B, d] and
        arms [T, B]."""
        expected = self._expected(observation)  # [..., K]
        chosen = tf.reduce_sum(expected * tf.one_hot(action, expected.shape[-1]), -1)
        return tf.reduce_max(expected, -1) - chosen

    def _expected(self, context: Tensor) -> Tensor:
        """Returns each arm's expected reward, [..., K]."""
        return tf.einsum("...d,kd->...k", context, self.weights)
