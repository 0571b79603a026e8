"""What each of many agents is paid in the episodes of training.

Workers, which have no TensorFlow, compute the same from arrays (`rl.runners.collect.EpisodeSums`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.envs.agents import SUM, OwnRewards
from rl.ops.episodes import own_sums
from rl.parallel.devices import Devices
from rl.types import Tensor, Trajectory


class OwnReturns:
    """Adds up the undiscounted rewards of A agents, over their episodes and over a window, in variables.

    Args:
        rewards: of A agents.
        count: B, environments of one device.
        place: of the variables' names in checkpoints.

    Attributes:
        variables: by name.
    """

    def __init__(self, rewards: OwnRewards, count: int, place: str):
        self._rewards, agents = rewards, len(rewards.names)
        self._running = tf.Variable(tf.zeros([count, agents]), trainable=False)
        self._ended = tf.Variable(tf.zeros([agents]), trainable=False)  # sums of the window's episodes
        self.variables = {f"{place}/own_return": self._running, f"{place}/own_return_ended": self._ended}

    @classmethod
    def of(cls, env: Any, count: int, place: str) -> OwnReturns | None:
        """Returns those of an environment, in-graph or on the host; None where it is played by one.

        count, place: as of the class.
        """
        rewards = OwnRewards(env.observation_space, env.agents)
        return cls(rewards, count, place) if rewards.names else None

    def add(self, trajectory: Trajectory, goes_on: Tensor, ended: Tensor) -> None:
        """Takes a rollout of T steps in, of raw rewards; goes_on, ended: of the environments' episodes, as
        `rl.ops.episodes.own_sums` takes them."""
        played = trajectory.observation, trajectory.reward, trajectory.mask
        reward = self._rewards.of_rollout(*played, tf)
        finished, running = own_sums(self._running.value(), reward, goes_on, ended)
        self._running.assign(running)
        self._ended.assign_add(finished)

    def sums(self, devices: Devices) -> dict[str, float]:
        """Returns each agent's return, added up over the episodes that ended in the window; NaN where an
        earlier version began one of them, which did not tell."""
        total: np.ndarray = sum(each.numpy() for each in devices.values(self._ended))  # [A]
        return {f"{SUM}{name}": float(x) for name, x in zip(self._rewards.names, total, strict=True)}

    def begin_window(self, devices: Devices) -> None:
        """Sets these sums to 0."""
        for each in devices.values(self._ended):
            each.assign(tf.zeros_like(each))
