"""What each of many agents is paid in the episodes of training.

By the rules of evaluations (`rl.envs.agents.OwnRewards`), but of whole rollouts, as tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.envs.agents import OwnRewards
from rl.ops.episodes import own_sums
from rl.parallel.devices import Devices
from rl.types import Tensor, Trajectory

SUM = "own_return/"  # before an agent's name: a sum over the episodes that ended in a window


class OwnReturns:
    """Adds up the undiscounted rewards of A agents, over their episodes and over a window, in variables.

    Args:
        names: of the agents, A.
        rows: whether each agent is a row of its own; else a row of trajectories is all agents.
        count: B, environments of one device.
        place: of the variables' names in checkpoints.

    Attributes:
        variables: by name.
    """

    def __init__(self, names: tuple[str, ...], rows: bool, count: int, place: str):
        self._names, self._rows = names, rows
        self._running = tf.Variable(tf.zeros([count, len(names)]), trainable=False)
        self._ended = tf.Variable(tf.zeros([len(names)]), trainable=False)  # sums of the window's episodes
        self.variables = {f"{place}/own_return": self._running, f"{place}/own_return_ended": self._ended}

    @classmethod
    def of(cls, env: Any, count: int, place: str) -> OwnReturns | None:
        """Returns those of an environment, in-graph or on the host; None where it is played by one.

        count, place: as of the class.
        """
        names = OwnRewards(env.observation_space, env.agents).names
        return cls(names, env.agents > 1, count, place) if names else None

    def add(self, trajectory: Trajectory, goes_on: Tensor, ended: Tensor) -> None:
        """Takes a rollout of T steps in, of raw rewards; goes_on, ended: of the environments' episodes, as
        `rl.ops.episodes.own_sums` takes them."""
        reward = self._paid(trajectory)
        finished, running = own_sums(self._running.value(), reward, goes_on, ended)
        self._running.assign(running)
        self._ended.assign_add(finished)

    def sums(self, devices: Devices) -> dict[str, float]:
        """Returns each agent's return, added up over the episodes that ended in the window; NaN where an
        earlier version began one of them, which did not tell."""
        total: np.ndarray = sum(each.numpy() for each in devices.values(self._ended))  # [A]
        return {f"{SUM}{name}": float(x) for name, x in zip(self._names, total, strict=True)}

    def begin_window(self, devices: Devices) -> None:
        """Sets these sums to 0."""
        for each in devices.values(self._ended):
            each.assign(tf.zeros_like(each))

    def _paid(self, trajectory: Trajectory) -> Tensor:
        """Returns rewards [T, B, A], 0 after an agent has left, also where all are paid the same."""
        reward, observation = trajectory.reward, trajectory.observation
        if self._rows:
            own = tf.where(trajectory.mask > 0.0, reward, 0.0)  # no step of an agent that is gone counts
            return tf.reshape(own, [reward.shape[0], -1, len(self._names)])
        if "reward" in observation:
            return observation["reward"][1:]
        return tf.where(observation["alive"][:-1] > 0.0, reward[..., None], 0.0)
