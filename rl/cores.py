"""How many processors this process may use, which sizes pools of threads."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path

LIMIT = Path("/sys/fs/cgroup/cpu.max")  # of a container (cgroup v2): "QUOTA PERIOD" in microseconds, or "max"


def usable() -> int:
    """Returns how many processors this process may use at a time: those that it is bound to, or as many as a
    container's limit of processor time comes to, where these are fewer. More threads than that are stopped
    for the rest of each period, all together."""
    count = bound()
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = LIMIT.read_text(encoding="ascii").split()
        if quota != "max":
            count = min(count, max(1, math.ceil(int(quota) / int(period))))
    return count


def bound() -> int:
    """Returns the number of processors that this process is bound to."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
