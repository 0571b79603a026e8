"""Leagues of past selves: sampling of opponents, win rates and Elo ratings from sums of games.

A score counts a win 1, a draw 0.5 and a loss 0. Drawing by win rate is prioritized fictitious self-play with
f_hard (Vinyals et al. 2019, "Grandmaster level in StarCraft II using multi-agent reinforcement learning",
https://doi.org/10.1038/s41586-019-1724-z); ratings are Elo's, in which 400 points are odds of 10 to 1.
"""

from __future__ import annotations

import math

import tensorflow as tf

from rl.ops import random
from rl.types import Tensor

KEPT = 0.99  # the weight of the old win rate in the running mean, for each game
ELO_STEP = 32.0  # Elo by which an iteration's mean surprise of 1 moves a rating


def draw_opponents(weights: Tensor, present: float, seed: Tensor, count: int) -> Tensor:
    """Draws opponents, int32 [count]: the present self (number K) with probability `present`, else a member
    in proportion to weights [K], at least one of which must be above 0."""
    which, who = random.split(seed, 2)
    member = tf.argmax(
        tf.math.log(weights) + random.gumbel(who, [count, weights.shape[0]]), -1, output_type=tf.int32
    )
    return tf.where(random.uniform(which, [count]) < present, weights.shape[0], member)


def hard_weights(win_rate: Tensor, power: float) -> Tensor:
    """Returns (1 - win rate) ** power (f_hard); never 0, so that members that always lose are equally
    likely."""
    return tf.maximum((1.0 - win_rate) ** power, 1e-6)


def updated_win_rate(win_rate: Tensor, games: Tensor, score: Tensor) -> Tensor:
    """Returns win rates [K] after further `games` [K] with sums of scores [K]: running means in which each
    new game has weight 1 - KEPT."""
    kept = tf.exp(games * math.log(KEPT))
    return kept * win_rate + (1.0 - kept) * tf.math.divide_no_nan(score, games)


def updated_elo(rating: Tensor, elo: Tensor, games: Tensor, score: Tensor) -> Tensor:
    """Returns a rating after `games` [K] against opponents rated `elo` [K], with sums of scores [K]: it moves
    by ELO_STEP times the mean of score minus expected score."""
    expected = 1.0 / (1.0 + 10.0 ** ((elo - rating) / 400.0))  # [K]
    surplus = tf.reduce_sum(score - games * expected)
    return rating + ELO_STEP * tf.math.divide_no_nan(surplus, tf.reduce_sum(games))
