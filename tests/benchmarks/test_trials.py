"""Strategies for bandits, to which RL^2 is held: what is known of them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import trials

OPTIONS = {"arms": 5, "pulls": 20}


def _rewards(name: str) -> np.ndarray:
    return trials.of_strategy(trials.STRATEGIES[name], OPTIONS, 2_000, 3)


def test_random_pulls_win_half_the_time_and_thompson_sampling_learns() -> None:
    drawn, thompson, greedy = (_rewards(name) for name in ("random", "Thompson", "greedy"))
    assert drawn.shape == (20, 2_000)
    assert abs(drawn.mean() - 0.5) < 0.02  # probabilities are uniform
    for each in (thompson, greedy):
        assert abs(each[0].mean() - 0.5) < 0.04
        assert 0.6 < each[-5:].mean() < 5 / 6  # the best of five uniform numbers is 5/6 on average


def test_a_line_has_first_and_last_quarter_and_the_return() -> None:
    rewards = np.repeat([[0.0], [1.0], [1.0], [1.0]], 3, 1)  # 4 pulls, 3 trials
    numbers = [each for each in trials.line("x", rewards).split()[1:] if each != "+-"]
    assert numbers == ["0.000", "0.000", "1.000", "0.000", "3.000", "0.000"]
