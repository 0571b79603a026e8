"""Identity: name the state that is shown. The smallest environment that an agent can learn or fail to learn.

The idea is Stable-Baselines3's `IdentityEnv`. `rl/envs/identity_gym.py` is the same game for Gymnasium.
"""

from __future__ import annotations

import tensorflow as tf

from rl.envs.graph.base import GraphEnv
from rl.envs.identity_gym import spaces_of
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "Identity-v0"


@register
class Identity(GraphEnv):
    """Name the random state that is shown: one-hot of 4, 4 actions, reward 1 for the right one, 20 steps.

    Physics [B] int32: the state. Each step draws the next one uniformly, whatever the action, so that with
    discount gamma the optimal value is 1 / (1 - gamma) and that of a random policy a quarter of it. Episodes
    end by truncation only. An episode's return is 20 at best, 5 at random.

    With `continuous` states and actions are numbers in [-1, 1], physics [B] float32, and a reward is 1 minus
    the squared difference of the two: 20 at best, 13.3 for 0 throughout, 6.7 at random.
    """

    max_episode_steps = 20

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        num_states: int = 4,
        continuous: bool = False,
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.num_states, self.continuous = num_states, continuous
        self.observation_space, self.action_space = spaces_of(num_states, continuous)

    def initial(self, seed: Tensor) -> Tensor:
        """Draws a state, all alike."""
        if self.continuous:
            return random.uniform(seed, [self.num_envs], -1.0, 1.0)
        return random.randint(seed, [self.num_envs], self.num_states)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draws the next state as the first one."""
        if self.continuous:
            reward = 1.0 - tf.square(action[:, 0] - physics)
            return self.initial(seed), reward, tf.zeros([self.num_envs], tf.bool)
        named = tf.equal(tf.cast(action, tf.int32), physics)
        return self.initial(seed), tf.cast(named, tf.float32), tf.zeros_like(named)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns float32 [B, num_states], or [B, 1]."""
        return physics[:, None] if self.continuous else tf.one_hot(physics, self.num_states)
