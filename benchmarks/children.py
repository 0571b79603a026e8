"""Programs that a command runs side by side, and that end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Lock

from shared import ROOT

ENDED = 128 + signal.SIGTERM  # exit code of what was ended
_lock = Lock()
_running: set[subprocess.Popen[bytes]] = set()
_ending = False


def run(command: Sequence[str], output: Path, nice: int) -> int:
    """The exit code of a Python program, started in the repository root; what it prints goes into a file.
    Where the command is ending none is started."""
    with output.open("w") as file:
        with _lock:
            if _ending:
                return ENDED
            child = subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=file, stderr=file)
            _running.add(child)
        try:
            if nice:
                os.setpriority(os.PRIO_PROCESS, child.pid, nice)
            return child.wait()
        except BaseException:  # of the main thread alone
            child.terminate()
            child.wait()
            raise
        finally:
            with _lock:
                _running.discard(child)


def end() -> None:
    """Asks all that run to end; a run of train.py saves a checkpoint first."""
    global _ending
    with _lock:
        _ending = True
        for child in _running:
            child.terminate()


@contextlib.contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Has SIGTERM end what is done inside as an exception does, which ends the children."""
    global _ending
    earlier = signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    try:
        yield
    except BaseException:
        end()
        raise
    finally:
        signal.signal(signal.SIGTERM, earlier)
        _ending = False
