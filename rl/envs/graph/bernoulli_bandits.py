"""BernoulliBandits: bandits whose arms nobody knows at first, an episode a whole trial of many pulls.

Source: Duan et al. 2016, "RL^2: Fast Reinforcement Learning via Slow Reinforcement Learning", section 3.1,
https://arxiv.org/abs/1611.02779.
"""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.tasks import TaskEnv, TaskPhysics, part
from rl.envs.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.types import Tensor

ENV_ID = "BernoulliBandits-v0"


@register
class BernoulliBandits(TaskEnv):
    """Pull one of K arms, n times: 1 by the arm's probability, else 0; probabilities are drawn per episode.

    A task is probabilities [K], each uniform in [0, 1). What distinguishes an arm is seen by pulling it
    alone: the observation [1] is always 0, so that `previous_action_reward` has to tell of the pull before.
    The n-th pull terminates. `tasks` divides by the first arm's probability (`rl.envs.graph.tasks.part`).

    Args:
        arms: K.
        pulls: n.
        tasks: "all", "train" or "test".

    Raises:
        UsageError: fewer than two arms, or no pull.
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        arms: int = 5,
        pulls: int = 100,
        tasks: str = "all",
    ) -> None:
        super().__init__(num_envs, max_episode_steps, tasks)
        if arms < 2 or pulls < 1:
            raise UsageError(f"{ENV_ID}: needs two arms and a pull, not arms={arms}, pulls={pulls}")
        self.arms, self.pulls = arms, pulls
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(arms)

    def draw(self, seed: Tensor) -> Tensor:
        """Draws probabilities [B, K]."""
        unit = random.uniform(seed, [self.num_envs, self.arms])
        return tf.concat([part(self.tasks, unit[:, :1]), unit[:, 1:]], 1)

    def begin(self, task: Tensor, seed: Tensor) -> Tensor:
        """Returns the pulls made, int32 [B]: none."""
        return tf.zeros([self.num_envs], tf.int32)

    def move(
        self, task: Tensor, place: Tensor, action: Tensor, seed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Pulls the arms."""
        probability = tf.gather(task, tf.cast(action, tf.int32), batch_dims=1)  # [B]
        won = random.uniform(random.fold_in(seed, 1), [self.num_envs]) < probability
        return place + 1, tf.cast(won, tf.float32), place + 1 >= self.pulls

    def observe(self, physics: TaskPhysics) -> Tensor:
        """Returns zeros [B, 1]."""
        return tf.zeros([self.num_envs, 1])
