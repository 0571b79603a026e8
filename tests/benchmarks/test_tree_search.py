"""The benchmark of tree searches: our side of it, as the other side's process prints it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "tree_search.py"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gumbel", "puct"])
def test_our_side_searches_all_roots_and_says_how_fast(kind):
    sizes = ["--roots=3", "--moves=4", "--width=8", "--simulations=6", "--seconds=0.1"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), f"--kind={kind}", *sizes], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1].removeprefix("JSON "))
    assert found["simulations_per_s"] > 0
    assert np.shape(found["visits"]) == (3, 4) and np.sum(found["visits"], 1).tolist() == [6, 6, 6]
