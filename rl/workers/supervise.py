"""A process that does nothing but start the learner again, from its last checkpoint, when it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from rl.errors import AGAIN
from rl.signals import end_with_parent, stop_signals

LEAST = 30.0  # seconds: a learner that lived less has probably met what will kill the next one too
TRIES = 3  # such learners in a row, after which it is given up


def supervised() -> int | None:
    """Splits the process in two: returns None in the learner's, and in the other one, once the learner has
    ended for good, its exit code (128 + signal where a signal ended it).

    To be called before TensorFlow and threads of any kind exist. Where the system has no fork, there is no
    second process.
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
    """A process group of its own, so that a key on the terminal reaches the learner once, from its
    supervisor, and Ray's processes not at all; and a request to stop if the supervisor dies."""
    os.setpgid(0, 0)
    end_with_parent(supervisor, signal.SIGTERM)


def _wait(child: int, asking: set[signal.Signals]) -> tuple[int, bool]:
    """The status a child ended with, and whether it had been asked to stop: signals that arrive meanwhile are
    handed to it.

    They are blocked and taken one by one: a handler would not run while the wait for the child lasts, if its
    signal came just before that began.
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
