"""The supervisor: a process that only restarts the learner, from its last checkpoint, when it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from rl.errors import AGAIN
from rl.signals import end_with_parent, stop_signals

LEAST = 30.0  # seconds: if a learner ran for less, the next one will probably be killed for the same reason
TRIES = 3  # such learners in a row, after which the supervisor gives up


def supervised() -> int | None:
    """Forks the process into a supervisor and a learner. Returns None in the learner; in the supervisor it
    returns the learner's exit code (128 + signal if a signal ended it) once the learner will not be
    restarted.

    Call it before TensorFlow is imported and threads are started. On systems without fork there is no
    supervisor.
    """
    if not hasattr(os, "fork"):
        return None
    early, asking = 0, set(stop_signals())
    while True:
        begun = time.monotonic()
        sys.stdout.flush()
        sys.stderr.flush()
        supervisor = os.getpid()
        # Before the fork: none may be missed.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*asking, signal.SIGCHLD})
        child = os.fork()
        if child == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _become_learner(supervisor)
            return None
        status, asked = _wait(child, asking)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with contextlib.suppress(ProcessLookupError):  # what Ray's own processes leave behind
            os.killpg(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(status)  # minus the signal that ended it
        if asked or (code != AGAIN and (code >= 0 or -code in asking)):
            return code if code >= 0 else 128 - code
        early = early + 1 if time.monotonic() - begun < LEAST else 0
        ended = f"was ended by {signal.Signals(-code).name}" if code < 0 else "ended for the reason above"
        if early >= TRIES:
            print(f"error: the learner {ended} {TRIES} times in a row", file=sys.stderr)
            return code if code >= 0 else 128 - code
        print(f"the learner {ended}: going on from its last checkpoint", file=sys.stderr)


def _become_learner(supervisor: int) -> None:
    """Moves the learner to a process group of its own: Ctrl-C then reaches it once, through the supervisor,
    and does not reach Ray's processes. Also has it asked to stop if the supervisor dies."""
    os.setpgid(0, 0)
    end_with_parent(supervisor, signal.SIGTERM)


def _wait(child: int, asking: set[signal.Signals]) -> tuple[int, bool]:
    """Waits for a child; returns its exit status, and whether it was asked to stop. Signals that arrive
    during the wait are passed on to it.

    Signals are blocked and taken one by one: the handler of a signal that came just before the wait would not
    run until the wait ends.
    """
    asked = False
    while True:
        number = signal.sigwait({*asking, signal.SIGCHLD})
        if number != signal.SIGCHLD:
            asked = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, number)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status, asked
