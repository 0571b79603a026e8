"""Whether a run goes on: what its main thread does, noted by a watch that tells of a run that hangs.

`python -m rl.heartbeat RUN_DIR --seconds N` says it from outside, for a liveness probe of Kubernetes: exit
code 0 where the run in that folder went on within the last N seconds or is over, 1 where it has not, or never
began, 2 for what is typed wrong. Nothing here imports TensorFlow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rl.errors import AGAIN

log = logging.getLogger("rl")

FILE = "heartbeat"  # in a run's folder
START = "RL_START_SECONDS"  # after which a run that has not begun ends; see `limit_start`
VARIABLE = "RL_HEARTBEAT"  # names another file for it: that of a Pod, whose run may be worked on anywhere
TELL = 300.0  # seconds without progress after which a line says what is waited for
LOOK = 1.0  # seconds between two looks at the main thread
OVER = "over"


class _Main:
    """What the main thread of this process does."""

    def __init__(self) -> None:
        self.beats, self.what = 0, "the start"


_main = _Main()
_begun = threading.Event()  # set by the first watch


def doing(what: str) -> None:
    """Tells that the run goes on, and what it waits for from now on, such as "the environment's step".

    To be called by the thread that trains, as often as one likes: it costs a tenth of a microsecond.
    """
    _main.what = what
    _main.beats += 1


class Watch:
    """Context manager: a thread that writes the heartbeat, and tells what is waited for when nothing goes on.

    Args:
        run_dir: of the run; the file is `heartbeat` there, or the one that RL_HEARTBEAT names. One that
            cannot be written is no matter.
        step: gives how far the run is; called by the thread.
        limit: seconds without progress after which the process ends with exit code 75; None: it never does.
    """

    def __init__(self, run_dir: Path, step: Callable[[], int], limit: float | None = None):
        self._path = Path(os.environ.get(VARIABLE) or run_dir / FILE)
        self._step, self._limit = step, limit
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Watch:
        _begun.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._write(OVER)

    def _run(self) -> None:
        seen, waited, told = -1, 0.0, False
        while True:
            beats, what = _main.beats, _main.what
            if beats != seen:
                if told:
                    log.warning("it goes on, after %.0f s", waited)
                seen, waited, told = beats, 0.0, False
                self._write(what)
            elif waited >= TELL and not told:
                told = True
                log.warning("no progress for %.0f s: waiting for %s", waited, what)
            if self._limit is not None and waited >= self._limit:
                end_at_once(f"no progress for {waited:.0f} s: waiting for {what}; the same command goes on")
            if self._over.wait(LOOK):
                return
            # Looks, not a clock: where the whole process was stopped, as by a debugger, nothing has hung.
            waited += LOOK

    def _write(self, what: str) -> None:
        beat = {"time": time.time(), "step": self._step(), "what": what, "pid": os.getpid()}
        temporary = self._path.with_name(f".tmp-{self._path.name}-{os.getpid()}")
        try:
            temporary.write_text(json.dumps(beat) + "\n", encoding="utf-8")
            os.replace(temporary, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()


def limit_start() -> None:
    """Has this process end with exit code 75, from a thread, unless a `Watch` begins within the seconds that
    RL_START_SECONDS names: what imports, or fetches a run, may hang where nothing counts its beats. Without
    that variable, which a Pod has, nothing is done."""
    seconds = os.environ.get(START, "")
    if not seconds.isdigit():
        return

    def wait() -> None:
        if not _begun.wait(int(seconds)):
            end_at_once(f"no run has begun within {seconds} s; the same command goes on")

    _begun.clear()
    threading.Thread(target=wait, name="start", daemon=True).start()


def end_at_once(why: str) -> None:
    """Ends the process with exit code 75, as suddenly as `kill -9`, but with a line: what hangs can be asked
    for nothing."""
    patience = threading.Timer(LOOK, os._exit, [AGAIN])  # the line may wait for what hangs, too
    patience.daemon = True
    patience.start()
    log.error("%s", why)
    os._exit(AGAIN)


def verdict(path: Path, seconds: float, now: float) -> tuple[bool, str]:
    """Returns whether the run of a heartbeat file goes on (or is over), and a line that says so.

    Args:
        path: of the file, or of the run's folder.
        seconds: how old it may be.
        now: time.time().
    """
    try:
        path = path / FILE if path.is_dir() else path
        beat: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        age, step, what = now - float(beat["time"]), int(beat["step"]), str(beat["what"])
    except FileNotFoundError:
        return False, f"there is no {path}: the run has not begun"
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        return False, f"{path} cannot be read ({type(error).__name__})"
    if what == OVER:
        return True, f"over since {age:.0f} s, at step {step:,}"
    # A beat of tomorrow, from before the clock was set back, says as little as one of yesterday.
    return abs(age) <= seconds, f"step {step:,}, {age:.0f} s ago: waiting for {what}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rl.heartbeat",
        description="Exit code 0 where a run goes on or is over, 1 where it hangs or has not begun.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="a run's folder, or its heartbeat file")
    what = "how long it may have made no progress (default 1800)"
    parser.add_argument("--seconds", metavar="N", type=float, default=1800.0, help=what)
    args = parser.parse_args(argv)
    if not (math.isfinite(args.seconds) and args.seconds > 0):
        parser.error(f"--seconds {args.seconds}: needs a number above 0, such as 1800")
    alive, line = verdict(args.run_dir, args.seconds, time.time())
    print(line, file=sys.stdout if alive else sys.stderr)
    return 0 if alive else 1


if __name__ == "__main__":
    sys.exit(main())
