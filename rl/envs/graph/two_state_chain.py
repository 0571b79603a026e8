"""TwoStateChain: a Markov decision process whose action values are known exactly, for tests of bootstrapping.

`rl/envs/two_state_chain_gym.py` is the same process for Gymnasium.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "TwoStateChain-v0"


@register
class TwoStateChain(GraphEnv):
    """Two states with known values: one-hot of 2, 2 actions, both kinds of episode end, 8 steps.

    In state 0, action 0 stays and action 1 goes to state 1, reward 0 either way. In state 1, action 0 stays
    and action 1 ends the episode (terminated), reward 1 either way. Episodes start in either state with
    probability 1/2 and are truncated after 8 steps, which the observation does not show: the values are those
    of the process without the limit. With discount gamma they are exactly

        Q*(0, 0) = gamma^2 / (1 - gamma)        Q*(0, 1) = gamma / (1 - gamma)
        Q*(1, 0) = 1 / (1 - gamma)              Q*(1, 1) = 1

    (gamma = 0.9: 8.1, 9, 10, 1). Whoever takes truncation for termination finds Q(1, 0) below
    (1 - gamma^8) / (1 - gamma) (5.7 instead of 10); whoever bootstraps through termination finds Q(1, 1) > 1.
    The optimal policy's episode return is 8 from state 1, 7 from state 0. Physics [B] int32: the state.
    """

    max_episode_steps = 8

    def __init__(self, num_envs: int, max_episode_steps: int | None = None) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(2)

    def initial(self, seed: Tensor) -> Tensor:
        """Draws state 0 or 1, each with probability 1/2."""
        return random.randint(seed, [self.num_envs], 2)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moves the state, which never falls back from 1 to 0; the terminal observation is that of state
        1."""
        action = tf.cast(action, tf.int32)
        terminated = tf.equal(physics + action, 2)  # [B]
        return tf.maximum(physics, action), tf.cast(physics, tf.float32), terminated

    def observe(self, physics: Tensor) -> Tensor:
        """Returns float32 [B, 2]."""
        return tf.one_hot(physics, 2)
