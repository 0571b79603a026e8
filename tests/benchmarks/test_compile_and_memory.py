"""What is said of compile time and memory, and when they are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import compile_and_memory


@pytest.mark.parametrize(
    ("iterations", "growth", "end", "compiled", "said"),
    [
        (300, 0.0, 900.0, 3.0, "pass"),
        (300, 17.0, 900.0, 3.0, "MISS: memory"),
        (300, 5.0, 903.0, 3.0, "MISS: memory"),
        (200, 17.0, 917.0, 3.0, "-"),  # half-way is the end
        (100, 0.0, 900.0, 3.0, "-"),
        (100, 0.0, 900.0, 16.0, "MISS: compilation"),
    ],
)
def test_memory_is_judged_from_three_windows_on(iterations, growth, end, compiled, said):
    row = {"iterations": iterations, "growth_mb": growth, "rss_half_mb": 900.0, "rss_end_mb": end}
    assert compile_and_memory.verdict(row | {"compile_s": compiled}) == said


def test_the_probe_asks_for_the_end_after_its_windows_or_its_time(tmp_path):
    probe = compile_and_memory.Probe(iterations=250, limit_s=1e9)
    probe.note()
    assert [probe.on_checkpoint(step, tmp_path) for step in range(3)] == [False, False, True]
    assert len(probe.memory) == len(probe.times) == 4 and min(probe.memory) > 1.0
    late = compile_and_memory.Probe(iterations=250, limit_s=0.0)
    late.note()
    assert late.on_checkpoint(1, tmp_path)
