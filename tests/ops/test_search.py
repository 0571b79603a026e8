"""Tree search on boards that one can solve by hand, and against exact minimax."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.envs.graph.board_games import BoardGame
from rl.envs.graph.connect_four import ConnectFour
from rl.envs.graph.opponents import best_moves
from rl.envs.graph.tictactoe import TicTacToe
from rl.ops import random, search


def _board(game: BoardGame, picture: str) -> list[int]:
    return [" xo".index(each.replace(".", " ")) for each in picture.split()]


def _most_tried(game: BoardGame, pictures: list[str], playouts: int) -> tuple[list[int], np.ndarray]:
    boards = tf.constant([_board(game, each) for each in pictures])
    run = tf.function(lambda board, seed: search.uct(game, board, playouts, seed), autograph=False)
    visits = run(boards, random.key(7)).numpy()
    return visits.argmax(1).tolist(), visits


def test_it_finds_the_win_in_one_and_the_block_in_one() -> None:
    three = TicTacToe(1)
    found, visits = _most_tried(
        three,
        [
            "x x . o o . . . .",  # x wins at 2
            "x . . . o . x . .",  # o has to block at 3
            "x o x . o . . . .",  # x has to block at 7
            "o x . . o x x . .",  # o, second to move, wins at 8
        ],
        100,
    )
    # The last one has 3 pieces of x and 2 of o, so that o is on turn.
    assert found == [2, 3, 7, 8]
    np.testing.assert_array_equal(visits.sum(1), 100)
    assert visits[0, [0, 1, 3, 4]].tolist() == [0, 0, 0, 0]  # taken


def test_it_wins_and_blocks_at_connect_four() -> None:
    found, _ = _most_tried(
        ConnectFour(1),
        [
            ". " * 28 + "o o . . . . . x x x . . . o",  # x wins in column 3: it lies beside three
            ". " * 28 + ". . . . . . . . x x x o . .",  # o has to block in column 0
            ". " * 21 + "x . . . . . o x . . . . . o x . . . . . o",  # x wins upwards in column 0
        ],
        100,
    )
    assert found == [3, 0, 0]


def test_with_many_playouts_it_agrees_with_minimax() -> None:
    game, rng = TicTacToe(1), np.random.default_rng(0)
    best, weights = best_moves(game), 3 ** np.arange(9)
    boards = []
    while len(boards) < 24:  # four random moves into the game
        cells = rng.permutation(9)[:4]
        board = np.zeros(9, np.int32)
        board[cells[::2]], board[cells[1::2]] = 1, 2
        boards.append(board)
    run = tf.function(lambda board, seed: search.uct(game, board, 400, seed), autograph=False)
    visits = run(tf.constant(np.array(boards)), random.key(1)).numpy()
    right = [best[board @ weights][row.argmax()] for board, row in zip(boards, visits, strict=True)]
    assert np.mean(right) == 1.0


def test_a_table_of_all_boards_knows_the_values_that_one_finds_by_hand() -> None:
    game = TicTacToe(1)
    best, weights = best_moves(game), 3 ** np.arange(9)

    def moves(picture: str) -> list[int]:
        return np.flatnonzero(best[np.array(_board(game, picture)) @ weights]).tolist()

    assert moves(". . . . . . . . .") == list(range(9))  # all of them draw
    assert moves("x . . . . . . . .") == [4]  # a corner is answered in the centre alone
    assert moves(". . . . x . . . .") == [0, 2, 6, 8]  # the centre in a corner
    assert moves("x o . . . . . . .") == [3, 4, 6]  # each of them wins by a fork
    assert moves("x . . . o . . . x") == [1, 3, 5, 7]  # a corner would lose


@pytest.mark.parametrize("depth", [1, 2])
def test_values_change_sides_on_their_way_up(depth: int) -> None:
    """One line of play, of which the last move wins: who made it counts 1 for each visit, the other -1."""

    class Line:
        """The game of counting to `depth`; who says the last number wins."""

        def legal_moves(self, physics):
            return tf.ones([1, 1], tf.bool)

        def play(self, physics, move):
            over = physics + 1 >= depth
            return physics + 1, tf.cast(over, tf.float32), over

    def evaluate(position, seed):
        return tf.ones([1, 1]), tf.zeros([1])

    tree = search.search(Line(), tf.zeros([1], tf.int32), 3, evaluate, lambda p, n, w: p, random.key(0))
    # Simulations 1 to depth - 1 add nodes worth 0, all others reach the end.
    wins = 3 - (depth - 1)
    assert tree.visits[0, 0, 0] == 3
    assert tree.total[0, 0, 0] == (wins if depth == 1 else -wins)
    if depth == 2:
        assert tree.total[0, 1, 0] == wins and tree.visits[0, 1, 0] == wins
