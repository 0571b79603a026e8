"""Leagues' arithmetic against numbers worked by hand."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops import league, random


def test_opponents_that_are_hard_are_drawn_more_often() -> None:
    weights = league.hard_weights(tf.constant([0.5, 0.75, 1.0]), 2.0)
    np.testing.assert_allclose(weights, [0.25, 0.0625, 1e-6], rtol=1e-6)  # (1 - x)^2
    drawn = league.draw_opponents(weights, 0.0, random.key(0), 10_000).numpy()
    np.testing.assert_allclose(np.mean(drawn == 0), 0.8, atol=0.02)  # 0.25 / 0.3125
    assert not (drawn == 2).any()


def test_who_is_not_there_is_not_drawn_and_the_present_self_is_by_its_share() -> None:
    drawn = league.draw_opponents(tf.constant([0.0, 1.0, 0.0]), 0.25, random.key(1), 10_000).numpy()
    assert set(drawn) == {1, 3}
    np.testing.assert_allclose(np.mean(drawn == 3), 0.25, atol=0.02)


def test_a_win_rate_forgets_a_hundredth_with_each_game() -> None:
    rates = league.updated_win_rate(
        tf.constant([0.5, 0.5, 0.2]), tf.constant([1.0, 2.0, 0.0]), tf.constant([1.0, 0.5, 0.0])
    )
    # 0.99 * 0.5 + 0.01 * 1; 0.9801 * 0.5 + 0.0199 * 0.25; no game, no change
    np.testing.assert_allclose(rates, [0.505, 0.495025, 0.2], rtol=1e-5)


def test_elo_moves_by_what_was_not_expected() -> None:
    def after(rating: float, elo: list[float], games: list[float], score: list[float]) -> float:
        return float(league.updated_elo(tf.constant(rating), *map(tf.constant, (elo, games, score))))

    np.testing.assert_allclose(after(0.0, [0.0], [1.0], [1.0]), 16.0)  # an even game won: 32 * 0.5
    np.testing.assert_allclose(after(400.0, [0.0], [1.0], [1.0]), 400.0 + 32.0 / 11.0, rtol=1e-6)
    # One of 10 : 1 lost, an even one drawn: the mean of -10/11 and 0.
    np.testing.assert_allclose(
        after(400.0, [0.0, 400.0], [1.0, 1.0], [0.0, 0.5]), 400.0 - 16.0 * 10.0 / 11.0, rtol=1e-6
    )
    assert after(7.0, [0.0], [0.0], [0.0]) == 7.0
