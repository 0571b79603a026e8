"""BitFlip in tensors: turn n bits into a goal of n bits, each step flips one, and only the goal pays.

Source: Andrychowicz et al. 2017, "Hindsight experience replay", https://arxiv.org/abs/1707.01495, section
3.1. The paper leaves open when an episode ends: here at the goal, and cut after n steps, within which every
goal can be reached. State and goal are drawn independently, so that once in 2^n episodes they are equal at
the start, which no step has earned. `rl/envs/bit_flip_gym.py` is the same for Gymnasium, used for evaluation.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from gymnasium import spaces

from rl.envs.bit_flip_gym import check_bits, goal_space
from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "BitFlip-v0"


class BitFlipPhysics(NamedTuple):
    """Bits, and what they should be."""

    state: Tensor  # [B, bits] int32 of 0 and 1
    goal: Tensor  # [B, bits] int32


@register
class BitFlip(GraphEnv):
    """Turn n bits into a goal, one flip a step: reward -1, but 0 with the step that reaches it; n steps.

    Observation: a Dict of `observation` and `achieved_goal`, both the bits, and `desired_goal`, int32
    [B, bits] each. Action i of n flips bit i. It terminates at the goal, and is cut after n steps at most.
    """

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, bits: int = 15) -> None:
        check_bits(bits)
        super().__init__(num_envs, bits if max_episode_steps is None else min(bits, max_episode_steps))
        self.bits = bits
        self.observation_space, self.action_space = goal_space(bits), spaces.Discrete(bits)

    def initial(self, seed: Tensor) -> BitFlipPhysics:
        """Draws state and goal, all bits alike."""
        return BitFlipPhysics(*tf.unstack(random.randint(seed, [2, self.num_envs, self.bits], 2)))

    def dynamics(
        self, physics: BitFlipPhysics, action: Tensor, seed: Tensor
    ) -> tuple[BitFlipPhysics, Tensor, Tensor]:
        """Flips one bit."""
        flipped = tf.one_hot(action, self.bits, dtype=tf.int32)
        state = tf.bitwise.bitwise_xor(physics.state, flipped)
        return BitFlipPhysics(state, physics.goal), *self.goal_reward(state, physics.goal)

    def goal_reward(self, achieved_goal: Tensor, desired_goal: Tensor) -> tuple[Tensor, Tensor]:
        """Returns 0 and True where all bits are equal, -1 and False elsewhere."""
        reached = tf.reduce_all(achieved_goal == desired_goal, -1)  # [N]
        return tf.where(reached, 0.0, -1.0), reached

    def observe(self, physics: BitFlipPhysics) -> dict[str, Tensor]:
        """Returns the bits, twice, and the goal."""
        state, goal = physics
        return {"observation": state, "achieved_goal": state, "desired_goal": goal}
