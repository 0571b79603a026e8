"""What `benchmarks/flat.py` takes for growth."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from flat import verdicts


def samples(files, own=lambda hour: 400.0):
    """Two hours of samples, one every ten seconds."""
    hours = np.arange(720) / 360.0
    return [
        {"seconds": 3600.0 * hour, "own_mib": own(hour), "files": files(i, hour), "threads": 29}
        for i, hour in enumerate(hours)
    ]


def test_a_file_that_is_open_for_a_moment_is_no_growth_and_one_an_hour_is():
    lines = verdicts(samples(lambda i, hour: 17 if i == 700 else 11 + 2 * (i % 10 == 0)))
    assert [line[:6] for line in lines] == ["* pass"] * 3
    assert "11 / 11 / 13 in the first third, 11 / 11 / 17 in the last" in lines[1]
    lines = verdicts(samples(lambda i, hour: 11 + int(hour) + 6 * (i % 10 == 0)))
    assert [line[:6] for line in lines] == ["* pass", "* FAIL", "* pass"]


def test_memory_may_grow_by_sixteen_mebibytes_an_hour():
    for rate, word in ((15.0, "* pass"), (17.0, "* FAIL")):
        lines = verdicts(samples(lambda i, hour: 11, lambda hour, rate=rate: 400.0 + rate * hour))
        assert lines[0].startswith(word) and f"{rate:+.1f} MiB/hour (at most 16)" in lines[0]
