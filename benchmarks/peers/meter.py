"""Bookkeeping that all benchmark drivers share: marks times, prints one line `JSON {...}`.

Rates are taken between the first mark at or after `warmup_steps` and the last mark, so imports,
construction, compilation and the first iterations do not count; they show in startup_s, first_mark_s,
first_update_s and wall_s, which run from the launch of the process. Standard library only: it runs in every
library's environment.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from typing import NamedTuple


class Mark(NamedTuple):
    """What was done by a time."""

    time: float
    steps: float  # environment steps
    updates: float  # gradient updates


def process_age() -> float:
    """Seconds since this process was started, imports included."""
    with open("/proc/self/stat") as file:
        start_ticks = int(file.read().rsplit(")", 1)[1].split()[19])
    with open("/proc/uptime") as file:
        uptime = float(file.read().split()[0])
    return uptime - start_ticks / os.sysconf("SC_CLK_TCK")


def peak_rss_mb() -> int:
    """Largest resident memory of this process, or of a child that has ended, in MiB."""
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return round(max(resource.getrusage(who).ru_maxrss for who in both) / 1024)


def checkout_version(checkout: str) -> str:
    """ "checkout COMMIT", or "checkout" where git does not say which."""
    command = ["git", "-C", checkout, "rev-parse", "--short=7", "HEAD"]
    try:
        found = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "checkout"
    return f"checkout {found.stdout.strip()}".strip()


class Meter:
    """Marks of one training run.

    Args:
        library, version, workload: what ran, as they are to be printed.
        warmup_steps: environment steps after which the measurement begins.
        launched: when the process that is measured started (`time.perf_counter`); None: this one.
    """

    def __init__(
        self, library: str, version: str, workload: str, warmup_steps: float, launched: float | None = None
    ):
        self.library, self.version, self.workload = library, version, workload
        self.warmup_steps = warmup_steps
        self.launched = time.perf_counter() - process_age() if launched is None else launched
        self.startup: float | None = None
        self.first_update: float | None = None
        self.first: Mark | None = None
        self.warm: Mark | None = None
        self.last: Mark | None = None

    def start(self, at: float | None = None) -> None:
        """Training is about to begin: imports and construction are over."""
        self.startup = (time.perf_counter() if at is None else at) - self.launched

    def mark(self, steps: float, updates: float = 0) -> None:
        """So many environment steps and gradient updates are done by now."""
        self.last = Mark(time.perf_counter(), steps, updates)
        self.first = self.first or self.last
        if self.first_update is None and updates:
            self.first_update = self.last.time - self.launched
        if self.warm is None and steps >= self.warmup_steps:
            self.warm = self.last

    def report(self, return_mean: float | None, **more: object) -> None:
        """Prints the line; `return_mean` is of about the last 100 episodes, `more` adds fields."""
        if self.warm is None or self.last is None or self.last is self.warm:
            raise SystemExit(f"too few steps: the measurement begins after step {self.warmup_steps:g}")
        seconds = self.last.time - self.warm.time
        line = {
            "library": self.library,
            "version": self.version,
            "workload": self.workload,
            "env_steps_per_s": round((self.last.steps - self.warm.steps) / seconds, 1),
            "updates_per_s": round((self.last.updates - self.warm.updates) / seconds, 1),
            "measured_s": round(seconds, 2),
            "startup_s": _rounded(self.startup),
            "first_mark_s": None if self.first is None else _rounded(self.first.time - self.launched),
            "first_update_s": _rounded(self.first_update),
            "wall_s": round(time.perf_counter() - self.launched, 2),
            "peak_rss_mb": peak_rss_mb(),
            "return_mean": None if return_mean is None else round(return_mean, 1),
            "total_env_steps": round(self.last.steps),
            "total_updates": round(self.last.updates),
            "threads_env": os.environ.get("OMP_NUM_THREADS"),
        }
        print("JSON " + json.dumps(line | more), flush=True)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
