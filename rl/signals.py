"""Stop when asked to: finish what is under way, then leave with the exit code a shell expects."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
PATIENCE = (
    3.0  # seconds that `train.py` waits for what is under way; Kubernetes may give as little as 15 in all
)


def stop_signals() -> tuple[signal.Signals, ...]:
    """Returns the signals that ask this process to stop. SIGHUP is not among them where it is ignored
    (`nohup`); SIGINT, which shells have the background jobs of a script ignore, always is."""
    return _SIGNALS[:2] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else _SIGNALS


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
    """Puts the handlers of before back after what is done in it, which may install others, as Ray and
    TensorFlow do, under which the process would end without a last checkpoint, or not at all."""
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
    False. The earlier handlers come back at exit. SIGHUP stays ignored where it was.

    Args:
        announce: whether a line says that the signal came.
        patience: seconds after which the process ends at once, where `requested` has not been read since the
            signal and nothing is in `unhurried`; None: never. For programs of which nothing else is in the
            process.
    """

    def __init__(self, announce: bool = True, patience: float | None = None):
        self.signal: signal.Signals | None = None
        self.kept = "nothing was saved yet"  # what is lost if the process ends at once, in words
        self._announce, self._patience = announce, patience
        self._interrupts = 0
        self._heeded, self._unhurried = False, 0
        self._lock = threading.RLock()  # a handler may interrupt another one
        self._earlier: dict[int, Any] = {}
        self._watch: _Watch | None = None

    @property
    def requested(self) -> bool:
        """Says whether a signal asked the program to stop."""
        self._heeded = self.signal is not None
        return self._heeded

    @property
    def exit_code(self) -> int:
        """Returns 128 + signal, as shells report it: 129 for SIGHUP, 130 for SIGINT, 143 for SIGTERM; 0
        while there was none."""
        return 128 + self.signal if self.signal is not None else 0

    def raise_asked(self) -> None:
        """Raises what the signal asked for, once all is saved, so that the caller's own program stops too.

        Raises:
            KeyboardInterrupt: SIGINT came.
            SystemExit: another signal came; its code is `exit_code`.
        """
        if self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        if self.signal is not None:
            raise SystemExit(self.exit_code)

    @contextlib.contextmanager
    def unhurried(self) -> Iterator[None]:
        """Has what is done in it waited for however long it takes."""
        self._unhurried += 1
        try:
            yield
        finally:
            self._unhurried -= 1

    def __enter__(self) -> StopRequest:
        _ENTERED.append(self)
        if threading.current_thread() is threading.main_thread():
            for each in stop_signals():
                self._earlier[each] = signal.getsignal(each)
                signal.signal(each, self._handle)
            if self._patience is not None:
                self._watch = _Watch(self._patience, self._came, self._is_late)
        return self

    def __exit__(self, *_: object) -> None:
        if self in _ENTERED:  # not in a forked process
            _ENTERED.remove(self)
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._put_back()

    def _put_back(self) -> None:
        for each, handler in self._earlier.items():
            # None: it was not installed from Python and cannot be put back from here
            signal.signal(each, signal.SIG_DFL if handler is None else handler)
        self._earlier.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1:
            raise KeyboardInterrupt
        self._came(number)

    def _came(self, number: int) -> None:
        """Notes and tells the first signal; called by the handler and by the watch, which may be earlier."""
        with self._lock:
            if self.signal is None:
                self.signal = signal.Signals(number)
                if self._announce:
                    self._say("saving a checkpoint, then stopping")

    def _is_late(self, number: int) -> None:
        """Ends the process, unless it has seen the signal."""
        if not self._heeded and not self._unhurried:
            self._say(f"what is under way takes too long to wait for; {self.kept}")
            os._exit(128 + number)

    def _say(self, words: str) -> None:
        # os.write: a handler that interrupted a print must not print
        name = "" if self.signal is None else self.signal.name
        with contextlib.suppress(OSError):
            os.write(2, f"\n{name}: {words}\n".encode())


_ENTERED: list[StopRequest] = []  # those under way, the newest last


def _in_forked_child() -> None:
    """Gives a forked process of an environment the handlers of before: a signal to it is not for the run,
    which would hear of it by their common pipe, and ends it. But a terminal's Ctrl-C reaches all of them, and
    the run decides."""
    entered = bool(_ENTERED)
    for each in reversed(_ENTERED):
        if each._watch is not None:
            signal.set_wakeup_fd(-1)
        each._put_back()
    _ENTERED.clear()
    if entered:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


os.register_at_fork(after_in_child=_in_forked_child)


class _Watch:
    """A thread that hears of signals while the main thread is in a compiled call, where no handler runs.

    Args:
        patience: seconds between the two calls below.
        came, late: called with the number of a signal that has a handler, at once, and each `patience` later.
    """

    def __init__(self, patience: float, came: Callable[[int], None], late: Callable[[int], None]):
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._earlier = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(patience, came, late), daemon=True)
        self._thread.start()

    def _run(self, patience: float, came: Callable[[int], None], late: Callable[[int], None]) -> None:
        while (numbers := os.read(self._read, 1)) and not self._closed.is_set():
            if numbers[0] not in _SIGNALS:
                continue
            came(numbers[0])
            while not self._closed.wait(patience):  # again: it may have come when nothing could be done
                late(numbers[0])

    def close(self) -> None:
        signal.set_wakeup_fd(self._earlier)
        self._closed.set()
        os.write(self._write, b"\0")  # wakes the thread
        self._thread.join()
        os.close(self._read)
        os.close(self._write)
