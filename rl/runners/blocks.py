"""The arrays of a rollout that the host made, as a compiled function takes them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from rl.agents.agent import Agent, network_state
from rl.runners.collect import NUMBERS
from rl.spaces import space_spec
from rl.types import Nest, Tensor, Trajectory


class BlockContent(NamedTuple):
    """What the blocks of an agent hold."""

    observation_space: Any
    action_space: Any
    extras: tuple[str, ...]  # Agent.trajectory_extras
    state: Nest  # [1, ...] of the network: numpy zeros

    @classmethod
    def of(cls, agent: Agent) -> BlockContent:
        state = tf.nest.map_structure(np.array, network_state(agent.initial_state(1)))
        return cls(agent.observation_space, agent.action_space, agent.trajectory_extras, state)


class BlockLayout:
    """Describes the arrays of a block, which are the arguments of a compiled function.

    Values share arrays to keep the arguments few: each costs tens of microseconds, which with one environment
    is more than a step takes.

    Args:
        content: what they hold.
        num_envs: B.
        length: T, steps of a block.
    """

    def __init__(self, content: BlockContent, num_envs: int, length: int):
        self.observation_structure = space_spec(content.observation_space, ())
        self.action_structure = space_spec(content.action_space, ())
        lead = (length, num_envs)
        observation = tf.nest.flatten(space_spec(content.observation_space, (lead[0] + 1, lead[1])))
        action = tf.nest.flatten(space_spec(content.action_space, lead))
        self._state_structure = content.state
        state = [tf.TensorSpec((num_envs, *x.shape[1:]), x.dtype) for x in tf.nest.flatten(content.state)]
        self._names = (*NUMBERS, *content.extras)
        self._extras = content.extras
        self.signature = [*observation, *action, *state, tf.TensorSpec((len(self._names), *lead), tf.float32)]
        self._split, self._end = len(observation), len(observation) + len(action)

    def joined(self, blocks: list[list[np.ndarray]]) -> list[np.ndarray]:
        """Returns the arrays of one block of all environments, from blocks of some each."""
        if len(blocks) == 1:
            return blocks[0]
        pairs = zip(zip(*blocks, strict=True), self._axes(), strict=True)
        return [np.concatenate(part, axis) for part, axis in pairs]

    def divided(self, arrays: list[np.ndarray], count: int) -> list[list[np.ndarray]]:
        """Returns the arrays of `count` blocks of this layout, from a block of `count` times as many
        environments."""
        if count == 1:
            return [arrays]
        parts = [np.split(each, count, axis) for each, axis in zip(arrays, self._axes(), strict=True)]
        return [list(each) for each in zip(*parts, strict=True)]

    def _axes(self) -> list[int]:
        """Where the environments are in each array."""
        last = len(self.signature) - 1
        return [1 if i < self._end else 2 if i == last else 0 for i in range(last + 1)]

    def trajectory(self, arrays: tuple[Tensor, ...]) -> tuple[Trajectory, Tensor]:
        """Returns (the trajectory, life_lost bool [T, B])."""
        numbers = dict(zip(self._names, tf.unstack(arrays[-1]), strict=True))  # [T, B] each
        trajectory = Trajectory(
            tf.nest.pack_sequence_as(self.observation_structure, arrays[: self._split]),
            tf.nest.pack_sequence_as(self.action_structure, arrays[self._split : self._end]),
            numbers["reward"],
            numbers["terminated"] > 0.0,
            numbers["truncated"] > 0.0,
            numbers["mask"],
            {name: numbers[name] for name in self._extras},
            tf.nest.pack_sequence_as(self._state_structure, arrays[self._end : -1]),
        )
        return trajectory, numbers["life_lost"] > 0.0
