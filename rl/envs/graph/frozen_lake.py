"""FrozenLake in tensors, on the map and with the limit of RLlib's example of curiosity.

Source: Gymnasium's FrozenLake-v1 (gymnasium/envs/toy_text/frozen_lake.py), whose own class
`rl/envs/frozen_lake_gym.py` registers under this id for evaluation. The map of 12 x 12 without holes, from
which the goal cannot be reached in more steps than the shortest way has, is that of RLlib's
intrinsic_curiosity_model_based_curiosity.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.frozen_lake_gym import MAP_12X12, STEPS
from rl.envs.graph.base import GraphEnv
from rl.envs.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.types import Tensor

ENV_ID = "FrozenLake12x12-v0"
MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # left, down, right, up: what is added to (row, column)


@register
class FrozenLake(GraphEnv):
    """Cross a frozen lake of 12 x 12 in 22 steps: 4 actions, reward 1 at the goal, reached by chance never.

    Observation [B] int32: row * columns + column. `desc` is another map, rows of S (start), F (ice), H (hole,
    which ends the episode) and G (goal); on slippery ice each step goes as intended, or to either side of
    that, with probability 1/3 each.
    """

    max_episode_steps = STEPS

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        desc: Sequence[str] = MAP_12X12,
        is_slippery: bool = False,
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        letters = np.array([list(row) for row in desc]) if len({len(row) for row in desc}) == 1 else None
        if letters is None or not set("SG") <= set(letters.flat) <= set("SFHG"):
            raise UsageError(
                "FrozenLake: desc needs rows of equal length, of S, F, H and G, an S and a G among them"
            )
        rows, columns = letters.shape
        place = np.arange(rows * columns)
        moved = [
            np.clip(place // columns + down, 0, rows - 1) * columns
            + np.clip(place % columns + right, 0, columns - 1)
            for down, right in MOVES
        ]
        self.following = np.stack(moved, 1).astype(np.int32).reshape(-1)  # [rows * columns * 4]
        self.starts = np.flatnonzero(letters.reshape(-1) == "S").astype(np.int32)
        self.goal = (letters.reshape(-1) == "G").astype(np.float32)  # [rows * columns]
        self.ends = np.isin(letters.reshape(-1), ["G", "H"])  # [rows * columns]
        self.is_slippery = is_slippery
        self.observation_space = spaces.Discrete(rows * columns)
        self.action_space = spaces.Discrete(4)

    def initial(self, seed: Tensor) -> Tensor:
        """Draws one of the starts."""
        return tf.gather(tf.constant(self.starts), random.randint(seed, [self.num_envs], len(self.starts)))

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Moves where the action leads, on slippery ice perhaps to a side of that; walls stop."""
        action = tf.cast(action, tf.int32)
        if self.is_slippery:
            action = (action + random.randint(seed, [self.num_envs], 3) + 3) % 4
        place = tf.gather(tf.constant(self.following), physics * 4 + action)
        return place, tf.gather(tf.constant(self.goal), place), tf.gather(tf.constant(self.ends), place)

    def observe(self, physics: Tensor) -> Tensor:
        """Returns int32 [B]."""
        return physics
