"""What two-player games with a board share: turns, masks and ends.

A game is played by two agents of which one is on turn; the other one has a single legal action, to pass. As
in PettingZoo, the winner gets 1 and the loser -1, who plays an illegal move loses 1 and the other one
nothing, and each player sees its own pieces first. What differs from PettingZoo: there an agent that is not
on turn does not act, and its mask is all zeros; here observations are float32 and the mask has one more
place, to pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.multi_agent import TurnGame
from rl.envs.graph_gym import draw_channels
from rl.spaces import ACTION_MASK
from rl.types import Nest, Tensor

OBSERVED = "observation"


class BoardGame(TurnGame):
    """B games. Physics [B, cells] int32: 0 empty, 1 or 2 the piece of a player; whose turn it is follows.

    A game says its `shape`, `moves` and `lines` and writes `legal_moves` and `cell_of`. Action `moves` is to
    pass; what the player does who is not on turn is ignored. Observation: "observation" [*shape, 2] float32,
    1 where the player itself has a piece, and where the other one has, and "action_mask" [moves + 1].
    """

    agent_names: tuple[str, ...] = ("player_0", "player_1")
    shape: tuple[int, int]  # rows and columns
    moves: int  # moves that a player on turn may choose among
    lines: Sequence[Sequence[int]]  # cells of which a player who has them all wins

    def __init__(self, num_envs: int, max_episode_steps: int | None = None) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.cells = self.shape[0] * self.shape[1]
        self.action_space = spaces.Discrete(self.moves + 1)
        board = spaces.Box(0.0, 1.0, (*self.shape, 2), np.float32)
        mask = spaces.MultiBinary(self.moves + 1)
        self.observation_space = spaces.Dict({OBSERVED: board, ACTION_MASK: mask})
        self._lines = np.zeros((self.cells, len(self.lines)), np.float32)  # [cells, lines]
        for number, line in enumerate(self.lines):
            self._lines[list(line), number] = 1.0

    def cell_of(self, board: Tensor, move: Tensor) -> Tensor:
        """Returns the cells into which legal moves [B] put a piece, int32 [B]."""
        raise NotImplementedError

    def initial(self, seed: Tensor) -> Tensor:
        """Returns empty boards."""
        return tf.zeros([self.num_envs, self.cells], tf.int32)

    def dynamics(self, physics: Tensor, action: Tensor, seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Makes the move of the player on turn; both have left when somebody has won, or the board is full,
        or the move was illegal."""
        mover = tf.one_hot(self.turn(physics), 2)  # [B, 2]
        move = tf.gather(tf.cast(action, tf.int32), self.turn(physics), batch_dims=1)  # [B]
        board, paid, over = self.play(physics, move)
        of_other = -tf.maximum(paid, 0.0)  # who loses by an illegal move loses to nobody
        reward = mover * paid[:, None] + (1.0 - mover) * of_other[:, None]
        return board, reward, tf.repeat(over[:, None], 2, 1)

    def play(self, physics: Tensor, move: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Makes moves int32 [B] on boards [B, cells]; an illegal one leaves the board as it is, and ends the
        game.

        Returns the boards, what the mover is paid (1: it won, -1: the move was illegal, else 0), float32 [B],
        and whether the game is over, bool [B].
        """
        board, turn = physics, self.turn(physics)  # [B, cells], [B]
        known = tf.pad(self.legal_moves(board), [[0, 0], [0, 1]])  # passing is no move
        legal = tf.gather(known, move, batch_dims=1)  # [B]
        cell = self.cell_of(board, tf.minimum(move, self.moves - 1))
        placed = tf.one_hot(cell, self.cells, dtype=tf.int32) * (turn + 1)[:, None]  # [B, cells]
        board = tf.where(legal[:, None], board + placed, board)
        own = tf.cast(board == (turn + 1)[:, None], tf.float32)
        pieces = np.sum(self._lines, 0)  # [lines] of each line
        won = tf.reduce_any(own @ self._lines == pieces, -1) & legal  # [B]
        paid = tf.where(won, 1.0, tf.where(legal, 0.0, -1.0))
        return board, paid, won | ~legal | tf.reduce_all(board > 0, -1)

    def turn(self, physics: Tensor) -> Tensor:
        """Returns who is on turn, int32 [B]: the first player, 0, where the number of pieces is even, else
        1."""
        return tf.reduce_sum(tf.cast(physics > 0, tf.int32), -1) % 2

    def observe(self, physics: Tensor) -> Nest:
        """Returns what each of the two sees, [B, 2, *shape, 2] and [B, 2, moves + 1]."""
        pieces = tf.stack([physics == 1, physics == 2], -1)  # [B, cells, 2]
        seen = tf.cast(tf.stack([pieces, pieces[..., ::-1]], 1), tf.float32)  # [B, 2, cells, 2]
        moves = tf.pad(self.legal_moves(physics), [[0, 0], [0, 1]])[:, None]  # [B, 1, moves + 1]
        passing = tf.one_hot(self.moves, self.moves + 1, True, False)
        on_turn = tf.one_hot(self.turn(physics), 2, True, False)[..., None]  # [B, 2, 1]
        mask = tf.cast(tf.where(on_turn, moves, passing), tf.int32)
        return {OBSERVED: tf.reshape(seen, [self.num_envs, 2, *self.shape, 2]), ACTION_MASK: mask}

    def draw(self, physics: Tensor) -> np.ndarray:
        """Returns the first board, uint8 [32 rows, 32 columns, 3], a colour for each player."""
        pieces = np.array(physics[0]).reshape(self.shape)[..., None] == [1, 2]
        return draw_channels(pieces)


def rows_of(length: int, shape: tuple[int, int]) -> list[list[int]]:
    """Returns all lines of `length` cells of a board, each as cells: across, down, and both ways diagonal."""
    rows, columns = shape
    lines = []
    for row in range(rows):
        for column in range(columns):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                last = row + down * (length - 1), column + right * (length - 1)
                if last[0] < rows and 0 <= last[1] < columns:
                    lines.append([(row + i * down) * columns + column + i * right for i in range(length)])
    return lines
