"""Level-based foraging in tensors: players collect food together that is too heavy for one of them.

Source: Albrecht and Ramamoorthy 2013, https://arxiv.org/abs/1506.01170, and Christianos et al. 2020,
https://arxiv.org/abs/2006.07169, as of the package `lbforaging` 2.0.0, whose "Foraging-8x8-2p-3f-v3" is the
default here; `tests/envs/test_foraging.py` holds every step against it where it is installed, which no extra
brings; elsewhere that test is skipped. What differs:

* the step limit truncates (there it terminates);
* observations say which actions are legal, which `action_masks=False` leaves out (there nothing tells; an
  illegal action is, here as there, to stay);
* all players see the whole field, levels of players are 1 or 2, nothing is lost by loading in vain;
* at a reset players avoid each other alone (there also where others stood in the episode before), and food is
  placed where any is possible (there 1000 attempts look for a place).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.multi_agent import MultiAgentEnv
from rl.envs.graph_gym import draw_channels
from rl.envs.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.spaces import ACTION_MASK
from rl.types import Nest, Tensor

ENV_ID = "Foraging-v0"
MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1], [0, 0]], np.int32)  # of actions; the last loads
LOAD = len(MOVES) - 1
MAX_PLAYER_LEVEL = 2
OBSERVED = "observation"


class ForagingPhysics(NamedTuple):
    """Where A players and F pieces of food are: row and column, and the level of each."""

    place: Tensor  # [B, A, 2] int32
    level: Tensor  # [B, A] int32
    food_place: Tensor  # [B, F, 2] int32
    food_level: Tensor  # [B, F] int32, 0: it has been eaten
    all_food: Tensor  # [B] int32 the levels of all food at the start


@register
class Foraging(MultiAgentEnv):
    """Collect food together: 8 x 8 cells, 2 players, 3 pieces of food, 6 actions, return 1 in all, 50 steps.

    Actions: stay, north, south, west, east, load. Players who load beside a piece whose level is no more than
    theirs in sum eat it, and share its level's part of all levels by their own levels. Observation [3 F + 3
    A]: row, column and level of the food that is left, in the order of the cells, then -1, -1, 0 for what is
    eaten, then of the player itself and of the others. State [(A + 1) size size]: for each player a board
    with its level where it stands, and one with the levels of food.

    Args:
        size: rows and columns.
        players: A.
        food: F.
        coop: whether each piece needs three players, or all of fewer.
        action_masks: whether observations say which actions are legal.
    """

    max_episode_steps = 50

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        size: int = 8,
        players: int = 2,
        food: int = 3,
        coop: bool = False,
        action_masks: bool = True,
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        for name, number, least in (("size", size, 5), ("players", players, 1), ("food", food, 1)):
            if number < least:
                raise UsageError(f"{name} must be at least {least}, not {number}")
        if players >= (size - 2) ** 2:
            raise UsageError(f"players={players} fill a field of size={size}: take fewer, or a larger one")
        self.size, self.players, self.food, self.coop, self.masks = size, players, food, coop, action_masks
        self.agent_names = tuple(f"player_{i}" for i in range(players))
        self.heaviest = heaviest = MAX_PLAYER_LEVEL * min(players, 3)  # food
        low = np.tile(np.array([-1, -1, 0], np.float32), food + players)
        high = [size - 1, size - 1, heaviest] * food + [size - 1, size - 1, MAX_PLAYER_LEVEL] * players
        seen = spaces.Box(low, np.array(high, np.float32), dtype=np.float32)
        mask = spaces.MultiBinary(len(MOVES))
        self.observation_space = spaces.Dict({OBSERVED: seen, ACTION_MASK: mask}) if action_masks else seen
        self.action_space = spaces.Discrete(len(MOVES))
        self.state_space = spaces.Box(0.0, heaviest, ((players + 1) * size * size,), np.float32)
        self._closed = _too_close(size)

    def initial(self, seed: Tensor) -> ForagingPhysics:
        """Draws levels and places: players anywhere, food inside, not beside or two cells from other food."""
        # Of each cell a rank: whoever is placed takes the first of those that are open to it.
        draws = random.uniform(seed, [self.num_envs, self.players + self.food + self.size**2])
        of_players, of_food, rank = tf.split(draws, [self.players, self.food, -1], 1)
        level = 1 + tf.cast(of_players * MAX_PLAYER_LEVEL, tf.int32)  # [B, A]
        heaviest = tf.reduce_sum(tf.sort(level)[:, :3], -1, keepdims=True)  # [B, 1]
        drawn = 1 + tf.cast(of_food * tf.cast(heaviest, tf.float32), tf.int32)
        food_level = tf.repeat(heaviest, self.food, 1) if self.coop else tf.minimum(drawn, heaviest)  # [B, F]

        is_open = tf.ones_like(rank, tf.bool)
        places, foods, there = [], [], []
        for _ in range(self.players):
            taken = _first(rank, is_open)  # [B, cells]
            is_open &= ~taken
            places.append(taken)
        is_open &= _inside(self.size)
        for _ in range(self.food):
            taken = _first(rank, is_open)
            is_open &= tf.cast(taken, tf.float32) @ self._closed == 0.0
            there.append(tf.reduce_any(taken, -1))
            foods.append(taken)
        food_level = tf.where(tf.stack(there, 1), food_level, 0)
        place, food_place = self._row_column(places), self._row_column(foods)
        return ForagingPhysics(place, level, food_place, food_level, tf.reduce_sum(food_level, -1))

    def dynamics(
        self, physics: ForagingPhysics, action: Tensor, seed: Tensor
    ) -> tuple[ForagingPhysics, Tensor, Tensor]:
        """Moves the players, none of those who want to the same cell; then lets those who load eat."""
        action = tf.cast(action, tf.int32)  # [B, A]
        action = tf.where(tf.gather(self._legal(physics), action, batch_dims=2), action, 0)
        target = physics.place + tf.gather(MOVES, action)  # [B, A, 2]
        same = tf.reduce_all(target[:, :, None] == target[:, None], -1)  # [B, A, A], with oneself too
        alone = tf.reduce_sum(tf.cast(same, tf.int32), -1) == 1
        place = tf.where(alone[..., None], target, physics.place)

        loads = (action == LOAD)[..., None] & _beside(place, physics)  # [B, A, F]
        strength = tf.where(loads, physics.level[..., None], 0)  # [B, A, F]
        team = tf.reduce_sum(strength, 1)  # [B, F]
        eaten = (team >= physics.food_level) & (physics.food_level > 0)  # [B, F]
        gain = tf.where(eaten, physics.food_level, 0)[:, None] * strength  # [B, A, F]
        whole = team * physics.all_food[:, None]  # [B, F]
        share = tf.math.divide_no_nan(tf.cast(gain, tf.float32), tf.cast(whole, tf.float32)[:, None])
        food_level = tf.where(eaten, 0, physics.food_level)
        over = tf.reduce_all(food_level == 0, -1, keepdims=True)  # [B, 1]
        moved = physics._replace(place=place, food_level=food_level)
        return moved, tf.reduce_sum(share, -1), tf.repeat(over, self.players, 1)

    def observe(self, physics: ForagingPhysics) -> Nest:
        """Returns [B, A, 3 F + 3 A] float32, and the mask int32 [B, A, 6] where there is one."""
        food = tf.reshape(self._food_left(physics), [self.num_envs, 1, -1])  # [B, 1, 3 F]
        players = tf.concat([physics.place, physics.level[..., None]], -1)  # [B, A, 3]
        order = [[i, *(j for j in range(self.players) if j != i)] for i in range(self.players)]
        players = tf.gather(players, np.array(order, np.int32), axis=1)  # [B, A, A, 3] own first
        players = tf.reshape(players, [self.num_envs, self.players, -1])
        seen = tf.cast(tf.concat([tf.repeat(food, self.players, 1), players], -1), tf.float32)
        return {OBSERVED: seen, ACTION_MASK: tf.cast(self._legal(physics), tf.int32)} if self.masks else seen

    def state(self, physics: ForagingPhysics) -> Tensor:
        """Returns [B, (A + 1) size size] float32."""
        cells = tf.one_hot(self._cell(physics.place), self.size * self.size, dtype=tf.int32)  # [B, A, cells]
        food = tf.one_hot(self._cell(physics.food_place), self.size * self.size, dtype=tf.int32)
        food = tf.reduce_sum(food * physics.food_level[..., None], 1, keepdims=True)  # [B, 1, cells]
        boards = tf.concat([cells * physics.level[..., None], food], 1)
        return tf.cast(tf.reshape(boards, [self.num_envs, -1]), tf.float32)

    def draw(self, physics: ForagingPhysics) -> np.ndarray:
        """Returns the first field, uint8 [32 size, 32 size, 3]: a colour for each player and one for food,
        the brighter the higher its level."""
        boards = np.array(self.state(physics)[0]).reshape(-1, self.size, self.size)
        return draw_channels(np.moveaxis(boards, 0, -1) / [*[MAX_PLAYER_LEVEL] * self.players, self.heaviest])

    def _legal(self, physics: ForagingPhysics) -> Tensor:
        """Returns which actions are legal, bool [B, A, 6]: to go where neither the rim nor food is, to load
        beside food. Other players are no hindrance: they may go away."""
        target = physics.place[:, :, None] + MOVES  # [B, A, 6, 2]
        in_field = tf.reduce_all((target >= 0) & (target < self.size), -1)
        food_place = physics.food_place[:, None, None]  # [B, 1, 1, F, 2]
        at_food = tf.reduce_all(target[:, :, :, None] == food_place, -1)  # [B, A, 6, F]
        blocked = tf.reduce_any(at_food & (physics.food_level > 0)[:, None, None], -1)
        can_load = tf.reduce_any(_beside(physics.place, physics), -1, keepdims=True)  # [B, A, 1]
        return tf.concat([(in_field & ~blocked)[..., :LOAD], can_load], -1)

    def _food_left(self, physics: ForagingPhysics) -> Tensor:
        """Returns row, column and level of the food, int32 [B, F, 3], by cells; last what is eaten, as -1,
        -1, 0."""
        left = physics.food_level > 0
        key = tf.where(left, self._cell(physics.food_place), self.size**2 + np.arange(self.food))  # [B, F]
        rank = tf.reduce_sum(tf.cast(key[:, None] < key[:, :, None], tf.int32), -1)  # [B, F]
        entries = tf.concat([physics.food_place, physics.food_level[..., None]], -1)
        entries = tf.where(left[..., None], entries, np.array([-1, -1, 0], np.int32))
        return tf.einsum("bfr,bfk->brk", tf.one_hot(rank, self.food, dtype=tf.int32), entries)

    def _cell(self, place: Tensor) -> Tensor:
        return place[..., 0] * self.size + place[..., 1]

    def _row_column(self, taken: list[Tensor]) -> Tensor:
        """Returns rows and columns, int32 [B, n, 2], of one cell for each of n, [B, cells] each."""
        numbers = np.arange(self.size * self.size, dtype=np.int32)
        cell = tf.reduce_max(tf.where(tf.stack(taken, 1), numbers, 0), -1)  # [B, n]
        return tf.stack([cell // self.size, cell % self.size], -1)


def _first(rank: Tensor, is_open: Tensor) -> Tensor:
    """Returns which open cell has the highest rank, bool [B, cells]: none where none is open."""
    ranks = tf.where(is_open, rank, -1.0)
    return is_open & (ranks == tf.reduce_max(ranks, -1, keepdims=True))


def _beside(place: Tensor, physics: ForagingPhysics) -> Tensor:
    """Returns who stands beside which food, bool [B, A, F]."""
    apart = tf.reduce_sum(tf.abs(place[:, :, None] - physics.food_place[:, None]), -1)
    return (apart == 1) & (physics.food_level > 0)[:, None]


def _inside(size: int) -> np.ndarray:
    """Returns which cells are not at the rim, bool [cells]."""
    inside = np.zeros((size, size), bool)
    inside[1:-1, 1:-1] = True
    return inside.ravel()


def _too_close(size: int) -> np.ndarray:
    """Returns which cells a piece of food closes for others, 1.0 or 0.0 [cells, cells]: itself, the 8 around
    it, and those 2 away in its row and column."""
    row, column = np.divmod(np.arange(size * size), size)
    rows, columns = abs(np.subtract.outer(row, row)), abs(np.subtract.outer(column, column))
    return (np.maximum(rows, columns) <= 1 + (np.minimum(rows, columns) == 0)).astype(np.float32)
