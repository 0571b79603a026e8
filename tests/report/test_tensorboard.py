"""TensorBoard as a user starts it: in the environment that was set up, on a folder of runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rl.report.logger import Logger


def test_the_command_that_every_run_ends_with_reads_its_events(tmp_path):
    with Logger(tmp_path / "run_0") as logger:
        logger.log(16, {"eval/return_mean": 3.0})
    # --inspect reads as the server does, and ends. The program is the one beside Python.
    command = [Path(sys.executable).with_name("tensorboard"), "--inspect", "--logdir", tmp_path]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-2000:]
    assert "run_0" in result.stdout and "eval/return_mean" in result.stdout
