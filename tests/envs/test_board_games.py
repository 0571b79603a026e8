"""Games on a board against PettingZoo's, game by game with random moves."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pettingzoo
import pytest
import tensorflow as tf

from rl.envs.graph.board_games import BoardGame
from rl.envs.graph.connect_four import ConnectFour
from rl.envs.graph.tictactoe import TicTacToe
from rl.ops import random

GAMES = 60  # all at once; in a fifth of them some moves are anything, illegal ones too
CASES = [(TicTacToe, "classic/tictactoe_v3"), (ConnectFour, "classic/connect_four_v3")]


def _stepping(game: BoardGame) -> Any:
    return tf.function(lambda board, action: game.dynamics(board, action, random.key(0)), autograph=False)


def _seen(original: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """What an agent sees in the original, as ours says it: who is not on turn passes."""
    seen = original.observe(name)
    on_turn = name == original.agent_selection
    assert on_turn or not seen["action_mask"].any()
    return seen["observation"], np.append(seen["action_mask"], not on_turn)


@pytest.mark.parametrize(("kind", "env_id"), CASES)
def test_whole_games_equal_pettingzoo(kind: type[BoardGame], env_id: str) -> None:
    game, rng = kind(GAMES), np.random.default_rng(0)
    step = _stepping(game)
    originals = [pettingzoo.make("aec", env_id) for _ in range(GAMES)]
    for original in originals:
        original.reset()
    names = originals[0].possible_agents
    assert game.agent_names == tuple(names)
    theirs = originals[0].observation_space(names[0])
    assert game.observation_space["observation"].shape == theirs["observation"].shape
    assert game.action_space.n == originals[0].action_space(names[0]).n + 1
    board, playing, outcomes = game.initial(random.key(0)), set(range(GAMES)), set()
    while playing:
        seen = {key: each.numpy() for key, each in game.observe(board).items()}
        action = rng.integers(game.moves + 1, size=(GAMES, 2))  # of who is not on turn: anything
        for i in playing:
            on_turn = names.index(originals[i].agent_selection)
            for a, name in enumerate(names):
                picture, mask = _seen(originals[i], name)
                np.testing.assert_array_equal(seen["observation"][i, a], picture)
                np.testing.assert_array_equal(seen["action_mask"][i, a], mask)
            legal = np.flatnonzero(seen["action_mask"][i, on_turn])
            action[i, on_turn] = rng.choice(legal)
            if i < GAMES // 5 and rng.random() < 0.3:
                action[i, on_turn] = rng.integers(game.moves)
        board, reward, terminated = step(board, tf.constant(action))
        for i in list(playing):
            original = originals[i]
            move = action[i, names.index(original.agent_selection)]
            legal = original.observe(original.agent_selection)["action_mask"][move]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PettingZoo's about illegal moves
                original.step(move)
            np.testing.assert_array_equal(reward[i], [original.rewards[name] for name in names])
            ended = [original.terminations[name] for name in names]
            np.testing.assert_array_equal(terminated[i], ended)
            if all(ended):
                playing.remove(i)
                outcomes.add((bool(legal), *reward[i].numpy()))
    assert {(True, 1, -1), (True, -1, 1), (False, -1, 0)} <= outcomes


def _after(game: BoardGame, moves: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Reward and terminated [2] of the last of these moves."""
    board = game.initial(random.key(0))
    for i, move in enumerate(moves):
        action = [[move, game.moves] if i % 2 == 0 else [game.moves, move]]
        board, reward, terminated = game.dynamics(board, tf.constant(action), random.key(0))
    return reward.numpy()[0], terminated.numpy()[0]


def test_games_end_as_their_rules_say() -> None:
    tictactoe, connect = TicTacToe(1), ConnectFour(1)
    cases = [
        (tictactoe, [0, 4, 1, 5, 2], [1, -1], True),
        (tictactoe, [0, 2, 1, 4, 8, 6], [-1, 1], True),  # the other diagonal
        (tictactoe, [0, 1, 2, 4, 3, 5, 7, 6], [0, 0], False),
        (tictactoe, [0, 1, 2, 4, 3, 5, 7, 6, 8], [0, 0], True),  # a draw
        (tictactoe, [0, 0], [0, -1], True),  # illegal
        (tictactoe, [9], [-1, 0], True),  # to pass on turn
        (connect, [0, 1, 0, 1, 0, 1, 0], [1, -1], True),  # upwards
        (connect, [3, 3, 4, 4, 5, 5, 6], [1, -1], True),  # across
        (connect, [0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3], [1, -1], True),  # diagonal
        (connect, [0, 1, 0, 1, 0, 2, 1], [0, 0], False),
        (connect, [6] * 7, [-1, 0], True),  # the column is full
    ]
    for game, moves, reward, over in cases:
        results = _after(game, moves)
        np.testing.assert_array_equal(results[0], reward, str(moves))
        np.testing.assert_array_equal(results[1], [over, over], str(moves))


def test_a_full_board_without_four_in_a_row_is_a_draw() -> None:
    rng, game = np.random.default_rng(3), ConnectFour(4000)
    step, board = _stepping(game), game.initial(random.key(0))
    over, draws = np.zeros(4000, bool), 0
    for _ in range(42):
        mask = game.observe(board)["action_mask"].numpy()
        action = (mask * rng.random(mask.shape)).argmax(-1)
        board, reward, terminated = step(board, tf.constant(action))
        draws += int(np.sum(terminated.numpy()[:, 0] & ~over & (np.abs(reward.numpy()).sum(-1) == 0)))
        over |= terminated.numpy()[:, 0]
    assert over.all()
    assert draws > 0
