"""Runs a script of a CleanRL checkout as a user would, in a process of its own, and times what it prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections import deque
from typing import NamedTuple

from meter import Meter, checkout_version

RETURN = re.compile(r"global_step=\d+, episodic_return=\[?(-?[\d.]+)")
SPEED = re.compile(r"SPS: (\d+)")


class Lines(NamedTuple):
    """What the script's lines "SPS" stand for."""

    first: int  # environment steps at the first of them
    steps: int  # environment steps from one to the next
    updates: int  # gradient updates from one to the next


def run(checkout: str, script: str, flags: str, workload: str, warmup: int, lines: Lines, envs: int) -> None:
    """Runs CHECKOUT/cleanrl/SCRIPT FLAGS and prints the meter's line; the rate begins at step `warmup`."""
    checkout = os.path.abspath(checkout)
    command = [sys.executable, "-u", os.path.join(checkout, "cleanrl", script), *flags.split()]
    if "jax" not in script:
        command.append("--no-cuda")
    env = dict(os.environ, PYTHONPATH=checkout)
    launched = time.perf_counter()
    meter = Meter(f"cleanrl {script}", checkout_version(checkout), workload, warmup, launched=launched)
    returns: deque[float] = deque(maxlen=100)
    steps, count = lines.first - lines.steps, 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        for line in child.stdout or ():
            if found := SPEED.match(line):
                steps, count = steps + lines.steps, count + 1
                if meter.startup is None and int(found[1]):
                    meter.start(time.perf_counter() - steps / int(found[1]))
                meter.mark(steps, count * lines.updates)
            elif found := RETURN.match(line):
                returns.append(float(found[1]))
        if child.wait():
            errors.seek(0)
            sys.exit(errors.read()[-2000:])
    meter.report(sum(returns) / len(returns) if returns else None, envs=envs)
