"""Stop when asked to: finish what is under way, then leave with the exit code a shell expects."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1


def end_with_parent(parent: int, number: signal.Signals) -> None:
    """Has the system send this process a signal when its parent dies.

    parent: its id; where it is gone already, this process ends at once.
    """
    with contextlib.suppress(OSError, AttributeError):  # Linux alone has it
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before that call
        os._exit(128 + number)


@contextlib.contextmanager
def kept_handlers() -> Iterator[None]:
    """What is done in it may install handlers of its own, as Ray and TensorFlow do, under which the process
    would end without a last checkpoint, or not at all: afterwards those of before are back."""
    handlers = {each: signal.getsignal(each) for each in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            with contextlib.suppress(ValueError):  # outside the main thread nothing was installed
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


class StopRequest:
    """Context manager in which SIGINT, SIGTERM and SIGHUP only set `requested`; a second SIGINT interrupts at
    once.

    Python runs signal handlers between two of its own instructions, so a request is seen when the
    compiled call under way returns. Outside the main thread nothing is installed and `requested` stays
    False. The earlier handlers come back at exit. SIGHUP stays ignored where it was (`nohup`); SIGINT, which
    shells have the background jobs of a script ignore, is heeded all the same.
    """

    def __init__(self, announce: bool = True):
        self.signal: signal.Signals | None = None
        self._announce = announce
        self._interrupts = 0
        self._earlier: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal asked the program to stop."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """128 + signal, as shells report it: 129 for SIGHUP, 130 for SIGINT, 143 for SIGTERM; 0 while there
        was none."""
        return 128 + self.signal if self.signal is not None else 0

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for each in _SIGNALS:
                if each == signal.SIGHUP and signal.getsignal(each) == signal.SIG_IGN:
                    continue
                self._earlier[each] = signal.getsignal(each)
                signal.signal(each, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for each, handler in self._earlier.items():
            # None: it was not installed from Python and cannot be put back from here
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        self._earlier.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1:
            raise KeyboardInterrupt
        if self.signal is None:
            self.signal = signal.Signals(number)
            if self._announce:
                # os.write: a handler that interrupted a print must not print
                with contextlib.suppress(OSError):
                    os.write(2, f"\n{self.signal.name}: stopping after this iteration\n".encode())
