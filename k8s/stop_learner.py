"""Asks the learner of this Pod to save and stop, and waits until it has: `python -m k8s.stop_learner`.

KubeRay runs Ray under a shell that hands no signal on: a head that is taken away would end its learner
without a last checkpoint. So the head runs this before it stops (`lifecycle.preStop`); Kubernetes bounds the
wait by the grace period.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

POLL = 0.2  # seconds
PROGRAM = "train.py"


def learners(proc: Path = Path("/proc")) -> list[int]:
    """Returns the ids of the processes that run `python train.py`."""
    found = []
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        with contextlib.suppress(OSError):  # it has ended meanwhile
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if len(words) > 1 and Path(words[0]).name.startswith("python") and words[1].endswith(PROGRAM):
                found.append(int(folder.name))
    return found


def main(proc: Path = Path("/proc")) -> int:
    """Sends SIGTERM to all learners, waits for their end; returns the exit code."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        print("error: this is no Pod: all learners of the machine would be stopped", file=sys.stderr)
        return 2
    for pid in learners(proc):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    while learners(proc):
        time.sleep(POLL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
