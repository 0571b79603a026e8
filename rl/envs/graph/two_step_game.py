"""TwoStepGame: the game that shows what value factorisation can represent, for tests of many agents.

Rashid et al. 2018, "QMIX", https://arxiv.org/abs/1803.11485, section 5: two agents, two actions, two steps.
In the first step agent 0 alone chooses which of two matrix games the second step is:

    2A: every pair of actions pays 7        2B: [[0, 1], [1, 8]]

A team that knows the value of 2B gets 8; one whose values are a sum over agents cannot tell that from less,
and takes 7.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.multi_agent import MultiAgentEnv
from rl.envs.graph_gym import draw_channels
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "TwoStepGame-v0"
PAY = np.array([[[7.0, 7.0], [7.0, 7.0]], [[0.0, 1.0], [1.0, 8.0]]], np.float32)  # game, agent 0's, agent 1's


@register
class TwoStepGame(MultiAgentEnv):
    """Two agents, two actions, two steps; the team gets 7 for sure, or 8 if both dare (Rashid et al. 2018).

    Both agents observe the state, one-hot of 3: the first step, game 2A, game 2B. The reward is the team's.
    Physics [B] int32: the state.
    """

    agent_names = ("agent_0", "agent_1")
    shared_reward = True

    def __init__(self, num_envs: int, max_episode_steps: int | None = None) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.state_space = spaces.Box(0.0, 1.0, (3,), np.float32)

    def initial(self, seed: Tensor) -> Tensor:
        """Starts in the first step."""
        return tf.zeros([self.num_envs], tf.int32)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Goes to the game that agent 0 chooses; there, pays and ends."""
        action = tf.cast(action, tf.int32)  # [B, 2]
        first = physics == 0  # [B]
        game = tf.maximum(physics - 1, 0)
        pay = tf.gather_nd(tf.constant(PAY), tf.stack([game, action[:, 0], action[:, 1]], -1))  # [B]
        reward = tf.where(first, 0.0, pay)
        terminated = tf.logical_not(first)
        state = tf.where(first, 1 + action[:, 0], physics)
        return state, tf.stack([reward, reward], 1), tf.stack([terminated, terminated], 1)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns float32 [B, 2, 3]."""
        return tf.stack([tf.one_hot(physics, 3)] * 2, 1)

    def state(self, physics: Tensor) -> Tensor:
        """Returns float32 [B, 3]."""
        return tf.one_hot(physics, 3)

    def draw(self, physics: Tensor) -> np.ndarray:
        """Returns where the first team is, uint8 [32, 96, 3]: the first step, game 2A or game 2B."""
        return draw_channels(tf.one_hot(physics[:1], 3))
