"""Opponents that stay as they are, in tensors: for evaluation, or to learn against."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tensorflow as tf

from rl.envs.graph.board_games import BoardGame
from rl.envs.graph.multi_agent import TurnGame
from rl.envs.graph.versus import Opponents, Versus
from rl.errors import UsageError, nearest
from rl.hparams.league import LEAGUE, SELF
from rl.ops import random, search
from rl.spaces import ACTION_MASK
from rl.types import Nest, Tensor

SOLVED = 100_000  # most boards, reachable or not, of a game that is solved at once


class _Fixed:
    """An opponent that remembers nothing."""

    def start(self, count: int, seed: Tensor) -> Nest:
        """Returns (): all episodes have the same opponent, which remembers nothing."""
        return ()

    def act(self, physics: Nest, observation: Nest, who: Nest, seed: Tensor) -> tuple[Tensor, Nest]:
        """Returns the legal move of each game that `preference` likes best, among equals any, int32 [B], and
        `who` as it was. Who is not on turn passes."""
        legal = tf.cast(observation[ACTION_MASK], tf.bool)  # [B, moves, and to pass]
        moves = self.preference(physics, random.fold_in(seed, 1))
        liked = tf.pad(moves, [[0, 0], [0, legal.shape[1] - moves.shape[1]]])
        liked += 0.5 * random.uniform(seed, liked.shape)
        return tf.argmax(tf.where(legal, liked, -np.inf), -1, tf.int32), who

    def preference(self, physics: Nest, seed: Tensor) -> Tensor:
        """Returns whole numbers [B, moves], the greater the better."""
        raise NotImplementedError


class RandomPlayer(_Fixed):
    """Any legal move."""

    def __init__(self, game: TurnGame):
        self._game = game

    def preference(self, physics: Nest, seed: Tensor) -> Tensor:
        """Returns zeros [B, moves]: all moves are liked alike."""
        return tf.zeros_like(tf.cast(self._game.legal_moves(physics), tf.float32))


class TreeSearch(_Fixed):
    """The move that a tree search with random playouts (`rl.ops.search.uct`) tried most."""

    def __init__(self, game: TurnGame, playouts: int):
        self._game, self._playouts = game, playouts

    def preference(self, physics: Nest, seed: Tensor) -> Tensor:
        """Returns how often a tree search tried each move, float32 [B, moves]."""
        return search.uct(self._game, physics, self._playouts, seed)


class PerfectPlayer(_Fixed):
    """Any of the best moves, from a table of all boards of a small game.

    Raises:
        UsageError: the game has too many boards.
    """

    def __init__(self, game: TurnGame):
        if not isinstance(game, BoardGame) or 3**game.cells > SOLVED:
            raise UsageError(
                f"opponent=perfect: {type(game).__name__} has too many positions for a table: take uct_100"
            )
        self._weights = tf.constant(3 ** np.arange(game.cells), tf.int32)
        self._best = tf.constant(best_moves(game), tf.float32)  # [boards, moves]

    def preference(self, physics: Nest, seed: Tensor) -> Tensor:
        """Returns 1 for each of the best moves, else 0: float32 [B, moves]."""
        return tf.gather(self._best, tf.reduce_sum(physics * self._weights, -1))


def best_moves(game: BoardGame) -> np.ndarray:
    """Returns which moves are best, bool [3 ** cells, moves], by minimax from full boards backwards.

    A board's number is the sum of 3 ** cell times what is in that cell. Boards at which nobody can be on
    turn are numbered, and have moves that mean nothing.
    """
    weights = 3 ** np.arange(game.cells)
    boards = (np.arange(3**game.cells)[:, None] // weights % 3).astype(np.int32)  # [boards, cells]
    pieces = (boards > 0).sum(1)
    value = np.zeros(len(boards), np.float32)  # for who is on turn
    best = np.zeros((len(boards), game.moves), bool)
    for count in reversed(range(game.cells)):
        numbers = np.flatnonzero(pieces == count)
        worth = np.full((len(numbers), game.moves), -np.inf, np.float32)
        physics = tf.constant(boards[numbers])
        legal = game.legal_moves(physics).numpy()
        for move in range(game.moves):
            after, paid, over = (each.numpy() for each in game.play(physics, tf.fill([len(numbers)], move)))
            won = np.where(over, paid, -value[after @ weights])
            worth[:, move] = np.where(legal[:, move], won, -np.inf)
        value[numbers] = worth.max(1)
        best[numbers] = worth == worth.max(1, keepdims=True)
    return best


def opponents_called(name: str, game: TurnGame) -> Opponents | None:
    """Returns the opponent of that name: `random`, `perfect`, or `uct_N`, a search of N playouts; None for
    `league`. Raises UsageError for another name, and where the game is too large for it."""
    if name == LEAGUE:
        return None
    if name == "random":
        return RandomPlayer(game)
    if name == "perfect":
        return PerfectPlayer(game)
    found = re.fullmatch(r"uct_([1-9]\d{0,4})", name)
    if found is None:
        known = ("random", "perfect", "uct_100", LEAGUE, SELF)
        raise UsageError(f"unknown opponent {name!r}: {nearest(name, known)}")
    return TreeSearch(game, int(found[1]))


def versus(game: TurnGame, opponent: str, opening: Any, view: str) -> Versus:
    """Returns the game against the opponent of that name; a league is set by who trains.

    opening: most random moves with which games begin.

    Raises:
        UsageError: there is no such opponent; a view of all agents as one; an opening that is no number.
    """
    if not isinstance(opening, int) or opening < 0:
        raise UsageError(f"opening={opening!r}: needs a number of random moves, 0 or more")
    if view == "joint":
        raise UsageError(f"opponent={opponent}: a team's value has no opponent: take ppo or dqn")
    return Versus(game, opponents_called(opponent, game), opening, view == "rows_and_state")
