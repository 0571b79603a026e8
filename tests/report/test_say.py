"""Lines on standard output whose reader is gone, or whose disk is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAID = """
import sys
from rl.report.progress import say
for number in range(3):
    say(f"line {number}")
print("went on", file=sys.stderr)
"""


@pytest.mark.parametrize("place", ["/dev/full", None])
def test_lines_that_nobody_can_take_end_nothing(place):
    reader = (
        subprocess.Popen([sys.executable, "-c", "pass"], stdin=subprocess.PIPE) if place is None else None
    )
    with reader.stdin if reader is not None else open(place, "w") as out:
        if reader is not None:
            reader.wait()
        ended = subprocess.run(
            [sys.executable, "-c", SAID], stdout=out, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    assert (ended.returncode, ended.stderr) == (0, "went on\n")
