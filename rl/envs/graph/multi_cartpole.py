"""Several CartPoles side by side, one for each agent: the smallest environment whose agents leave one by one.

Source: the dynamics are those of `rl/envs/graph/cartpole.py`, which equal Gymnasium's CartPole-v1; the idea
of playing several at once is RLlib's example environment `MultiAgentCartPole`. What differs from the latter:
nothing tells the agents apart, and all start anew when the last pole is down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from rl.envs.graph.cartpole import CartPole
from rl.envs.graph.multi_agent import MultiAgentEnv
from rl.envs.registry import register
from rl.errors import UsageError
from rl.types import Tensor

ENV_ID = "MultiCartPole-v0"
POLE = (202, 152, 101)  # colour in pictures


class PolesPhysics(NamedTuple):
    """The state of B times A carts."""

    carts: Tensor  # [B, A, 4] as of CartPole; of a pole that is down, as it fell
    down: Tensor  # [B, A] bool: the agent has left


@register
class MultiCartPole(MultiAgentEnv):
    """Balance a pole each: 4 agents (option `agents`), 4 numbers, 2 actions, reward 1 a step, 500 steps.

    An agent whose pole is down has left; its observation stays what it was. Nobody sees the others, and each
    has its own reward: the team's return is 2000 at best.
    """

    max_episode_steps = 500

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, agents: int = 4) -> None:
        super().__init__(num_envs, max_episode_steps)
        if agents < 1:
            raise UsageError(f"agents must be at least 1, not {agents}")
        self.agent_names = tuple(f"agent_{i}" for i in range(agents))
        self._one = CartPole(num_envs * agents)  # all carts as one batch
        self.observation_space, self.action_space = self._one.observation_space, self._one.action_space

    def initial(self, seed: Tensor) -> PolesPhysics:
        """Draws four numbers for each cart, each uniform in [-0.05, 0.05)."""
        carts = tf.reshape(self._one.initial(seed), [self.num_envs, len(self.agent_names), 4])
        return PolesPhysics(carts, tf.zeros(carts.shape[:2], tf.bool))

    def dynamics(
        self, physics: PolesPhysics, action: Tensor, seed: Tensor
    ) -> tuple[PolesPhysics, Tensor, Tensor]:
        """Moves the carts whose poles are up; see `CartPole.dynamics`."""
        down = physics.down  # [B, A]
        carts, reward, fallen = self._one.dynamics(
            tf.reshape(physics.carts, [-1, 4]), tf.reshape(action, [-1]), seed
        )
        carts = tf.where(down[..., None], physics.carts, tf.reshape(carts, physics.carts.shape))
        reward = tf.where(down, 0.0, tf.reshape(reward, down.shape))  # [B, A]
        down |= tf.reshape(fallen, down.shape)
        return PolesPhysics(carts, down), reward, down

    def observe(self, physics: PolesPhysics) -> Tensor:
        """Returns position, velocity, angle, angular velocity of each agent's own cart, [B, A, 4]."""
        return physics.carts

    def draw(self, physics: PolesPhysics) -> np.ndarray:
        """Returns the first environment's carts, uint8 [64 A, 240, 3], 40 pixels a metre."""
        strips = np.full((len(self.agent_names), 64, 240, 3), 255, np.uint8)
        along = np.linspace(0.0, 40.0, 80)  # the pole
        for strip, (x, _, theta, _) in zip(strips, np.array(physics.carts[0]), strict=True):
            middle = int(np.clip(120 + 40 * x, 8, 231))
            strip[52:60, middle - 8 : middle + 8] = 0
            strip[(52 - along * np.cos(theta)).astype(int), (middle + along * np.sin(theta)).astype(int)] = (
                POLE
            )
        return strips.reshape(-1, 240, 3)
