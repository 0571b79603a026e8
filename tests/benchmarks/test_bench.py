"""The page of `make bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bench
from workloads import ROWS

FACTS = {"machine": "2 cores", "versions": ["rl 1"], "processors": ["one"]}


@pytest.mark.parametrize("passed", [True, False, None])
def test_what_limits_a_row_is_told_where_it_misses(passed):
    row = ROWS["whole_purejaxrl"]
    numbers = {"ours_median": 2.0, "peer_median": 1.0, "ratio_of_medians": 2.0, "median_of_ratios": None}
    line = {
        "row": "whole_purejaxrl",
        "title": row.title,
        "at_most": True,
        "peer": "purejaxrl_whole",
        **numbers,
    }
    line |= {"passed": passed, "runs": 2, "noisy_runs": 0, "date": "2026-11-25"}
    text = bench.markdown([line], FACTS)
    assert row.limit and (f"* {row.title}: {row.limit}.\n" in text) == (passed is False)
