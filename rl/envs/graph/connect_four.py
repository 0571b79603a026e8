"""Connect Four in tensors, for two agents.

Source: PettingZoo 1.27's `classic.connect_four_v3`, against which `tests/envs/test_board_games.py` holds
whole games. What differs is said by `rl/envs/graph/board_games.py`.
"""

from __future__ import annotations

import tensorflow as tf

from rl.envs.graph.board_games import BoardGame, rows_of
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "ConnectFour-v0"
ROWS, COLUMNS = 6, 7


@register
class ConnectFour(BoardGame):
    """Four in a row on 6 x 7 cells, by turns, pieces fall: 7 moves and to pass, reward 1 or -1 at the end.

    Moves are columns; the first row is the top one.
    """

    shape, moves, lines = (ROWS, COLUMNS), COLUMNS, rows_of(4, (ROWS, COLUMNS))

    def legal_moves(self, physics: Tensor) -> Tensor:
        """Returns the columns that are not full, bool [B, 7]."""
        return physics[:, :COLUMNS] == 0

    def cell_of(self, board: Tensor, move: Tensor) -> Tensor:
        """Returns the lowest empty cells of the columns, [B]."""
        empty = tf.reshape(tf.cast(board == 0, tf.int32), [-1, ROWS, COLUMNS])
        depth = tf.gather(tf.reduce_sum(empty, 1), move, batch_dims=1)  # [B] empty cells of the column
        return tf.maximum(depth - 1, 0) * COLUMNS + move
