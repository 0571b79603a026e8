"""Runs a benchmark process on an idle machine; notes what it printed, its time, and who else worked."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

IDLE_CORES = 0.3  # what others may use of the machine, in cores
POLL_S = 2.0


def busy_seconds() -> float:
    """CPU time used on this machine so far, by anyone."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU time of this process and of its children that have ended."""
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(sum(resource.getrusage(who)[:2]) for who in both)


class Others:
    """How much CPU everyone else used since this object was made."""

    def __init__(self) -> None:
        self.begun, self.busy, self.own = time.perf_counter(), busy_seconds(), own_seconds()

    def cores(self) -> float:
        """On average, in cores. Children count as others until they have ended."""
        used = busy_seconds() - self.busy - (own_seconds() - self.own)
        return max(used / (time.perf_counter() - self.begun), 0.0)


def wait_until_idle(limit_s: float) -> bool:
    """Waits until others use less than `IDLE_CORES`; False when that did not come about in `limit_s`."""
    deadline = time.monotonic() + limit_s
    while True:
        others = Others()
        time.sleep(POLL_S)
        if others.cores() < IDLE_CORES:
            return True
        if time.monotonic() > deadline:
            return False


def run(
    command: Sequence[str], folder: str, env: Mapping[str, str], idle_limit_s: float, timeout_s: float
) -> dict[str, Any]:
    """Runs `command` in `folder` and returns its `JSON {...}` line's fields (none if it prints none) with

    wall_s: of the whole process; others_cpu: cores that others used meanwhile; idle: whether others used
    little before; noisy: whether they used too much, before or meanwhile; output: the end of what it printed;
    error: only where it failed. Processes that outlive the one that started them, as Ray's, count as others.
    """
    idle = wait_until_idle(idle_limit_s)
    others = Others()
    with tempfile.TemporaryFile("w+", errors="replace") as written:
        begun = time.perf_counter()
        child = subprocess.Popen(
            list(command), cwd=folder, env=dict(env), stdout=written, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        error = None
        try:
            code = child.wait(timeout_s)
            error = f"exit code {code}" if code else None
        except subprocess.TimeoutExpired:
            error = f"not finished after {timeout_s:g} s"
        except BaseException:
            _end(child)
            raise
        if error is not None:
            _end(child)
        wall = time.perf_counter() - begun
        cores = others.cores()
        written.seek(0)
        output = written.read()
    lines = [json.loads(line[5:]) for line in output.splitlines() if line.startswith("JSON ")]
    row: dict[str, Any] = lines[-1] if lines else {}
    row |= {
        "wall_s": round(wall, 2),
        "others_cpu": round(cores, 2),
        "idle": idle,
        "noisy": not idle or cores > IDLE_CORES,
        "output": output[-1500:],
    }
    return row if error is None else row | {"error": error}


def _end(child: subprocess.Popen) -> None:
    """Ends a child and what it started, which share a process group of their own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
