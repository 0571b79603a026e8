"""Tic-tac-toe in tensors, for two agents.

Source: PettingZoo 1.27's `classic.tictactoe_v3`, against which `tests/envs/test_board_games.py` holds whole
games. What differs is said by `rl/envs/graph/board_games.py`.
"""

from __future__ import annotations

from rl.envs.graph.board_games import BoardGame, rows_of
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "TicTacToe-v0"


@register
class TicTacToe(BoardGame):
    """Three in a row on 3 x 3 cells, by turns: 9 moves and to pass, reward 1 or -1 at the end.

    Moves are the numbers of cells: 0 to 2 the first line, and so on.
    """

    agent_names = ("player_1", "player_2")
    shape, moves, lines = (3, 3), 9, rows_of(3, (3, 3))

    def legal_moves(self, physics: Tensor) -> Tensor:
        """Returns the empty cells, bool [B, 9]."""
        return physics == 0

    def cell_of(self, board: Tensor, move: Tensor) -> Tensor:
        """Returns the moves themselves."""
        return move
