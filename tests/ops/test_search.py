"""Tree search on boards that one can solve by hand, and against exact minimax."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from rl.agents.tree_search import acting_logits
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

    def recurrent(position, move, seed):  # the game of counting to `depth`; who says the last number wins
        over = position + 1 >= depth
        paid, discount = tf.cast(over, tf.float32), tf.where(over, 0.0, -1.0)
        return search.Step(position + 1, paid, discount, tf.ones([1, 1]), tf.zeros([1]))

    start, prior = tf.zeros([1], tf.int32), tf.ones([1, 1])
    tree = search.search(recurrent, start, prior, 3, lambda node: node.prior, random.key(0))
    # Simulations 1 to depth - 1 add nodes worth 0, all others reach the end.
    wins = 3 - (depth - 1)
    assert tree.visits[0, 0, 0] == 3
    assert tree.total[0, 0, 0] == (wins if depth == 1 else -wins)
    if depth == 2:
        assert tree.total[0, 1, 0] == wins and tree.visits[0, 1, 0] == wins


def test_puct_grows_the_tree_that_one_grows_by_hand() -> None:
    """Four simulations, c_puct 1, for two players. With the root's prior (0.6, 0.4):

    1. scores 0.6 and 0.4: move 0, to a node worth 0.5 to the other player: -0.5.
    2. -0.5 + 0.6 sqrt(2) / 2 = -0.076 and 0.4 sqrt(2) = 0.566: move 1, to a node worth -0.1: 0.1.
    3. -0.5 + 0.6 sqrt(3) / 2 = 0.020 and 0.1 + 0.4 sqrt(3) / 2 = 0.446: move 1, then 0, which wins: -1.
    4. -0.5 + 0.6 * 2 / 2 = 0.1 and -0.9 / 2 + 0.4 * 2 / 3 = -0.183: move 0; there 0.3 and 0.7: move 1, to a
       node worth 0.25 to who moved first: 0.25.
    """
    child = tf.constant([[1, 2], [0, 4], [3, 0]])  # where moves lead; 0: nobody goes there
    prior = tf.constant([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5], [1.0, 1.0], [1.0, 1.0]])
    value, reward = tf.constant([0.0, 0.5, -0.1, 9.0, 0.25]), tf.constant([0.0, 0.0, 0.0, 1.0, 0.0])

    def recurrent(position, move, seed):
        node = tf.gather_nd(child, tf.stack([position, move], 1))
        discount = tf.where(node == 3, 0.0, -1.0)
        of_node = (tf.gather(x, node) for x in (prior, value))
        return search.Step(node, tf.gather(reward, node), discount, *of_node)

    prior_of_two = tf.repeat(prior[:1], 2, 0)
    for jit_compile in (False, True):
        grow = tf.function(
            lambda seed: search.puct(recurrent, tf.zeros([2], tf.int32), prior_of_two, 4, seed, 1.0),
            jit_compile=jit_compile,
            autograph=False,
        )
        found = grow(random.key(0))
        np.testing.assert_array_equal(found.visits, [[2, 2], [2, 2]])
        np.testing.assert_allclose(found.weights, [[0.5, 0.5], [0.5, 0.5]])
        np.testing.assert_allclose(found.value, [(0.25 - 0.5 + 0.1 - 1.0) / 4] * 2, atol=1e-6)


def test_rewards_on_the_way_are_discounted() -> None:
    """One player, one move: rewards 1, 2, 3 ... with discount 0.5, every position worth 8."""

    def recurrent(position, move, seed):
        number = tf.cast(position + 1, tf.float32)
        return search.Step(position + 1, number, tf.constant([0.5]), tf.ones([1, 1]), tf.constant([8.0]))

    start, prior = tf.zeros([1], tf.int32), tf.ones([1, 1])
    found = search.puct(recurrent, start, prior, 3, random.key(0), 1.0)
    brought = [1 + 0.5 * 8, 1 + 0.5 * (2 + 0.5 * 8), 1 + 0.5 * (2 + 0.5 * (3 + 0.5 * 8))]
    np.testing.assert_allclose(found.value, [sum(brought) / 3])


def test_puct_without_a_network_agrees_with_minimax() -> None:
    """All moves are as likely, positions worth 0 but for those that are won: what it finds is by search."""
    game, rng = TicTacToe(1), np.random.default_rng(0)
    best, weights = best_moves(game), 3 ** np.arange(9)
    boards = np.zeros((24, 9), np.int32)
    for board in boards:  # four random moves into the game
        cells = rng.permutation(9)[:4]
        board[cells[::2]], board[cells[1::2]] = 1, 2

    def uniform(position):
        return search.legal_prior(tf.zeros([24, 9]), game.legal_moves(position))

    def recurrent(position, move, seed):
        position, paid, over = game.play(position, move)
        return search.Step(position, paid, tf.where(over, 0.0, -1.0), uniform(position), tf.zeros([24]))

    def run(root):
        return search.puct(recurrent, root, uniform(root), 400, random.key(0), 1.25)

    visits = tf.function(run, jit_compile=True, autograph=False)(tf.constant(boards)).visits.numpy()
    assert (visits[boards > 0] == 0.0).all()
    assert all(best[board @ weights][row.argmax()] for board, row in zip(boards, visits, strict=True))


def test_priors_are_of_legal_moves_alone_and_noise_stays_among_them() -> None:
    legal = tf.constant([[True, False, True, True]])
    prior = search.legal_prior(tf.constant([[0.0, 50.0, np.log(3.0), -1e4]]), legal)
    np.testing.assert_allclose(prior, [[0.25, 0.0, 0.75, search.LEAST]], rtol=1e-5)
    mixed = search.noisy(prior, 0.25, 0.3, random.key(0)).numpy()
    assert mixed[0, 1] == 0.0 and (mixed >= 0.75 * prior.numpy()).all()
    np.testing.assert_allclose(mixed.sum(), 1.0, rtol=1e-5)
    assert np.abs(mixed - prior.numpy()).max() > 0.01
    # So few of a concentration of 0.03 that some come to 0, which would say that the move is illegal.
    alone = search.noisy(tf.fill([200, 30], 1.0 / 30), 1.0, 0.03, random.key(1)).numpy()
    assert alone.min() == np.float32(search.LEAST)


def test_untried_moves_are_tried_in_random_order() -> None:
    boards = tf.zeros([9_000, 9], tf.int32)
    first = search.uct(TicTacToe(1), boards, 1, random.key(3)).numpy().argmax(1)
    assert stats.chisquare(np.bincount(first, minlength=9)).pvalue > 1e-4


def test_moves_that_a_search_never_tried_are_never_played_however_hot() -> None:
    shares = tf.constant([[0.5, 0.25, 0.0, 0.25]])
    found = tf.nn.softmax(acting_logits(SimpleNamespace(temperature=50.0), shares)).numpy()
    expected = np.array([0.5, 0.25, 0.0, 0.25]) ** 0.02
    np.testing.assert_allclose(found[0], np.where([1, 1, 0, 1], expected, 0.0) / expected[[0, 1, 3]].sum())


def test_values_are_rescaled_by_their_range_or_by_the_least_one() -> None:
    q = tf.constant([[1.0, 3.0, 2.0], [5.0, 5.0, 5.0], [0.0, 0.2, 0.1]])
    np.testing.assert_allclose(search.rescaled(q), [[0, 1, 0.5], [0, 0, 0], [0, 1, 0.5]], atol=1e-6)
    np.testing.assert_allclose(search.rescaled(q, 1.0), [[0, 1, 0.5], [0, 0, 0], [0, 0.2, 0.1]], atol=1e-6)
    np.testing.assert_allclose(search.rescaled(q, 4.0)[0], [0, 0.5, 0.25], atol=1e-6)
