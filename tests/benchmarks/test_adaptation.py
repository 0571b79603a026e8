"""What is printed of runs that adapt, and of which runs nothing is."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import adaptation


def test_a_line_has_the_mean_before_and_after_with_intervals_over_tasks() -> None:
    returns = np.array([[-40.0, -20.0, -30.0], [-2.0, -2.0, -2.0]])  # deviations 10 and 0
    numbers = [each for each in adaptation.line("x", returns).split()[1:] if each != "+-"]
    assert numbers == ["-30.00", "11.32", "-2.00", "0.00"]  # 1.96 * 10 / sqrt(3)
