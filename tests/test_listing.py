"""Lists of names, as they are printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_a_list_that_a_full_disk_does_not_take_is_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, str(ROOT / "train.py"), "--list", "algos"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (75, "error: cannot write the list: No space left on device\n")
