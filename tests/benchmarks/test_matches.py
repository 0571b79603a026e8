"""Matches of games for two: openings, sides and scores, with players whose games are known."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import rl
from rl.errors import UsageError

matches = importlib.import_module("matches")
EMPTY = np.zeros((3, 42), np.int32)

pytestmark = pytest.mark.slow  # of a script that is run by hand


def column(number):
    """A player who puts every piece into one column."""
    return lambda boards, seed: np.full(len(boards), number, np.int32)


def test_four_in_a_column_win_for_who_moves_first():
    game = matches.Game("ConnectFour-v0", 3)
    assert matches.match(game, (column(2), column(5)), EMPTY, 0).tolist() == [1.0, 1.0, 1.0]


def test_who_plays_a_full_column_loses():
    game = matches.Game("ConnectFour-v0", 3)  # six pieces in turns fill it; the seventh is the first one's
    assert matches.match(game, (column(2), column(2)), EMPTY, 0).tolist() == [0.0, 0.0, 0.0]


def test_openings_have_as_many_pieces_of_either_side():
    game = matches.Game("TicTacToe-v0", 50)
    boards = game.opened(4, np.random.default_rng(0))
    assert (boards > 0).sum(1).tolist() == [4] * 50 and len(np.unique(boards, axis=0)) > 10
    assert all((board == 1).sum() == (board == 2).sum() for board in boards)


def test_an_opening_may_be_half_a_game_long():
    with pytest.raises(UsageError, match=r"--opening 5: TicTacToe-v0 takes at most 4"):
        matches.Game("TicTacToe-v0", 2).opened(5, np.random.default_rng(0))


def test_a_search_of_many_playouts_beats_random_play_from_both_sides(capsys, monkeypatch):
    words = ["matches.py", "TicTacToe-v0", "uct_50", "random", "uct_50", "--games", "40", "--opening", "0"]
    monkeypatch.setattr(sys, "argv", words)
    assert matches.main() == 0
    against_random, against_itself = capsys.readouterr().out.splitlines()
    assert float(against_random.split(": ")[1].split(" ")[0]) > 0.85
    assert against_random.startswith("uct_50 against random")
    assert 0.2 < float(against_itself.split(": ")[1].split(" ")[0]) < 0.8


def test_a_trained_run_plays_with_its_search_and_without(tmp_path, capsys, monkeypatch):
    """Its network has hardly learned, so that what its search sees of the end decides."""
    few = {"train_steps": 64, "num_envs": 2, "rollout_length": 32, "minibatches": 2, "simulations": 2}
    rl.train("alphazero_tictactoe", output_dir=tmp_path, compile="graph", **few)
    words = ["matches.py", "TicTacToe-v0", f"{tmp_path}:64", str(tmp_path), "random", "--games", "60"]
    monkeypatch.setattr(sys, "argv", [*words, "--opening", "2", "--every_reply"])
    with pytest.raises(UsageError, match=r"there is no run in .*:64"):
        matches.main()
    monkeypatch.setattr(sys, "argv", [*words, "--opening", "2"])
    assert matches.main() == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if " against " in line]
    scores = [float(line.split(": ")[1].split(" ")[0]) for line in printed]
    assert len(scores) == 2 and scores[0] > 0.6 and scores[1] > 0.8


def test_scores_are_told_with_their_interval_over_openings():
    scores = np.array([[1.0, 1.0, 0.5, 0.0], [1.0, 0.0, 0.5, 1.0]])
    assert matches.said(scores) == "0.625 [0.500, 0.875], 4 won, 2 drawn, 2 lost"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("league", "unknown player 'league'"),
        ("randm", "unknown opponent 'randm': did you mean random"),
        ("/nowhere", "there is no run in /nowhere"),
    ],
)
def test_an_unknown_player_is_one_line(name, said):
    with pytest.raises(UsageError) as error:
        matches.made(matches.Game("TicTacToe-v0", 2), name, argparse.Namespace(), contextlib.ExitStack())
    assert said in str(error.value) and "\n" not in str(error.value)


def test_environments_that_are_no_board_game_are_refused():
    with pytest.raises(UsageError, match="CartPole-v1 is no board game"):
        matches.Game("CartPole-v1", 2)
