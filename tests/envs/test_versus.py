"""Games against an opponent: who moves when, what is paid, who can be beaten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from rl.envs.graph_host import make_graph
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random


class _Lowest:
    """Puts its piece into the first empty cell; remembers how often it was asked."""

    def start(self, count: int, seed: Any) -> Any:
        return tf.zeros([count])

    def act(self, physics: Any, observation: Any, who: Any, seed: Any) -> Any:
        return tf.argmax(observation["action_mask"], -1, tf.int32), who + 1.0


def _boards(state: Any) -> list[str]:
    return ["".join(".xo"[each] for each in board) for board in state.physics.physics.numpy()]


def test_a_step_is_a_move_and_the_answer_from_both_sides() -> None:
    env = make_graph("TicTacToe-v0", 2, {"opponent": "league"}, None)
    env.opponents = _Lowest()
    step = tf.function(env.step, autograph=False)
    state, first = env.reset(random.key(0))
    np.testing.assert_array_equal(first.observation["agent"], [[1, 0], [0, 1]])
    np.testing.assert_array_equal(first.observation["action_mask"][1], [0] * 9 + [1])  # to pass

    def moves(*action: int) -> Any:
        nonlocal state
        state, shown = step(state, tf.constant(action), random.key(1))
        return shown

    shown = moves(4, 9)
    assert _boards(state) == ["o...x....", "x........"]
    own = shown.observation["observation"].numpy()[..., 0].reshape(2, 9)
    np.testing.assert_array_equal(own, [[0, 0, 0, 0, 1, 0, 0, 0, 0], [0] * 9])  # each its own pieces
    shown = moves(3, 8)
    assert _boards(state) == ["oo.xx....", "xx......o"] and not shown.terminated.numpy().any()
    shown = moves(5, 7)  # the first wins, and is not answered; the second loses by the answer
    assert _boards(state) == ["oo.xxx...", "xxx....oo"]
    np.testing.assert_array_equal(shown.reward, [1, -1])
    np.testing.assert_array_equal(shown.terminated, [True, True])
    shown = moves(0, 0)  # ignored: the reset
    assert _boards(state) == ["." * 9] * 2
    np.testing.assert_array_equal(shown.reward, [0, 0])
    np.testing.assert_array_equal(state.physics.who, [0, 0])


def test_games_may_begin_after_random_moves_that_end_none() -> None:
    env = make_graph("TicTacToe-v0", 300, {"opponent": "random", "opening": 8}, None)
    board = env.initial(random.key(0)).physics
    pieces = (board.numpy() > 0).sum(1)
    assert set(pieces) == set(range(9)) and 20 < np.sum(pieces == 0) < 50  # 300 / 9
    lines = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 8], [0, 3, 6], [1, 4, 7], [2, 5, 8], [0, 4, 8], [2, 4, 6]])
    for player in (1, 2):
        assert not (board.numpy()[:, lines] == player).all(2).any()
    turn = env.game.turn(board).numpy()
    legal = env.seen(board, tf.constant(turn))["action_mask"].numpy()
    np.testing.assert_array_equal(legal[:, :9].sum(1), 9 - pieces)
    with pytest.raises(UsageError, match="opening=-1: needs a number"):
        make_graph("TicTacToe-v0", 2, {"opponent": "random", "opening": -1}, None)


def test_the_perfect_player_never_loses() -> None:
    env = make_graph("TicTacToe-v0", 256, {"opponent": "perfect"}, None)
    step = tf.function(env.step, autograph=False)
    state, shown = env.reset(random.key(0))
    total = np.zeros(256)  # of a game and the beginning of another one
    for i in range(6):
        legal = tf.cast(shown.observation["action_mask"], tf.float32)
        action = tf.argmax(legal * (1.0 + random.uniform(random.key(i), [256, 10])), -1, tf.int32)
        state, shown = step(state, action, random.key(i + 100))
        total += shown.reward.numpy()
    assert total.max() <= 0 and total.min() < 0


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"env_kwargs": {"opponent": "perfct"}}, "unknown opponent 'perfct': did you mean perfect"),
        ({"env": "ConnectFour-v0", "env_kwargs": {"opponent": "perfect"}}, "too many positions"),
        ({"env": "SimpleTag-v0", "env_kwargs": {"opponent": "random"}}, "has no option 'opponent'"),
    ],
)
def test_opponents_that_cannot_be_are_one_line(values: dict[str, Any], line: str) -> None:
    hparams = resolve("ppo", {"env": "TicTacToe-v0"} | values)
    with pytest.raises(UsageError, match=line):
        make_graph(hparams.env, 2, hparams.env_kwargs, None)


def test_a_league_is_of_training_and_needs_a_judge() -> None:
    league = {"opponent": "league"}
    for values, line in (
        ({"env_kwargs": league}, "an opponent that stays"),
        ({"train_env_kwargs": league}, "whom evaluations are against is not said"),
    ):
        with pytest.raises(UsageError, match=line):
            resolve("ppo", {"env": "TicTacToe-v0"} | values).freeze()
    with pytest.raises(UsageError, match="a team's value has no opponent"):
        make_graph("TicTacToe-v0", 2, league, None, "joint")
