"""Commands of the campaign as processes: `train.py` as it is typed, or the same in a fork of a process that
has imported everything already, which saves ten seconds each.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rl.signals import end_with_parent

ROOT = Path(__file__).resolve().parents[2]
MARKER = "RL_TORTURE_RUN"  # variable that all processes of a run inherit
LIMIT = 600.0  # seconds after which a command hangs
ENDING = 180.0  # seconds that its processes may take to end after it; agents of a Ray that was killed take 80
Prepare = Callable[[], None]


class Run:
    """A command that was started.

    Args:
        words: after `train.py`.
        output: file for both its streams.
        plan: of the fault, for `torture_hooks`; None: it is not disturbed.
        cold: a new Python process, as typed; False: a fork of this one.
        env: further variables.
        prepare: called in the new process first.
        before: words before `python`, where it is cold, such as `unshare -m`.
    """

    def __init__(
        self,
        words: Sequence[str],
        output: Path,
        plan: dict[str, Any] | None = None,
        cold: bool = False,
        env: dict[str, str] | None = None,
        prepare: Prepare | None = None,
        before: Sequence[str] = (),
    ):
        self.words, self.output, self.plan = [str(word) for word in words], output, plan
        self.marker = f"{os.getpid()}-{output.parent.name}-{output.name}"
        self._env = {MARKER: self.marker, **(env or {})}
        if plan is not None:
            self._env["RL_TORTURE"] = json.dumps(plan)
        self._status: int | None = None
        self.begun = time.monotonic()
        output.parent.mkdir(parents=True, exist_ok=True)
        self.cold = cold or bool(before)
        self.pid = self._start(prepare, list(before)) if self.cold else self._fork(prepare)

    def _start(self, prepare: Prepare | None, before: list[str]) -> int:
        parent = os.getpid()

        def first() -> None:
            end_with_parent(parent, signal.SIGKILL)  # the campaign
            if prepare is not None:
                prepare()

        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                [*before, sys.executable, str(ROOT / "train.py"), *self.words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=ROOT,
                env={**os.environ, **self._env},
                start_new_session=True,
                preexec_fn=first,
            )
        return self._process.pid

    def _fork(self, prepare: Prepare | None) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(parent, prepare)
        return pid

    def _become(self, parent: int, prepare: Prepare | None) -> None:
        """The fork's life: what `train.py` would be after its imports."""
        code: Any = 1
        try:
            os.setsid()
            end_with_parent(parent, signal.SIGKILL)  # the campaign
            outputs_to(self.output)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.closerange(3, 1024)
            for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                signal.signal(each, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.environ.update(self._env)
            os.chdir(ROOT)
            sys.argv = ["train.py", *self.words]
            if prepare is not None:
                prepare()
            from rl.cli import main

            code = main(self.words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def poll(self) -> int | None:
        """Exit code as a shell has it, 128 + signal where one ended it; None while it lives."""
        if self._status is None:
            if self.cold:
                found = self._process.poll()
                self._status = None if found is None else found if found >= 0 else 128 - found
            else:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    found = os.waitstatus_to_exitcode(status)
                    self._status = found if found >= 0 else 128 - found
        return self._status

    def wait(self, seconds: float = LIMIT) -> int | None:
        """As `poll`, once it has ended or so many seconds are over."""
        deadline = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.poll()

    def until(self, true: Callable[[], bool], seconds: float = LIMIT) -> bool:
        """Waits until something is true, or the command has ended; returns whether it is."""
        deadline = time.monotonic() + seconds
        while self.poll() is None and time.monotonic() < deadline:
            if true():
                return True
            time.sleep(0.005)
        return false_if_raising(true)

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    @property
    def stopped(self) -> bool:
        """Whether SIGSTOP holds it."""
        return _state(self.pid) == "T"

    @property
    def text(self) -> str:
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def left(self, seconds: float = ENDING) -> list[int]:
        """Its processes that still live so many seconds after."""
        deadline = time.monotonic() + seconds
        while (found := self._members()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def _members(self) -> list[int]:
        return [pid for pid in pids() if pid != self.pid and (_session(pid) == self.pid or self._marks(pid))]

    def _marks(self, pid: int) -> bool:
        with contextlib.suppress(OSError):
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            return f"{MARKER}={self.marker}".encode() in environ and _state(pid) not in "ZX"
        return False

    def end(self) -> None:
        """Kills it and all that it has started."""
        for pid in [self.pid] * (self.poll() is None) + self._members():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait(10.0)


def false_if_raising(true: Callable[[], bool]) -> bool:
    with contextlib.suppress(OSError):
        return true()
    return False


def outputs_to(output: Path) -> None:
    """Sends both streams of this process to a new file."""
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
    os.dup2(target, 1)
    os.dup2(target, 2)
    os.close(target)
    sys.stdout = open(1, "w", closefd=False, errors="replace")  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115


def limits(**values: int) -> Prepare:
    """What sets soft limits of a new process: `limits(NOFILE=64)`."""

    def prepare() -> None:
        for name, value in values.items():
            which = getattr(resource, f"RLIMIT_{name}")
            resource.setrlimit(which, (value, resource.getrlimit(which)[1]))

    return prepare


def pids() -> Iterable[int]:
    """Ids of all processes."""
    return (int(name) for name in os.listdir("/proc") if name.isdecimal())


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _state(pid: int) -> str:
    return (_stat(pid) or ["X"])[0]


def _session(pid: int) -> int:
    found = _stat(pid)
    return int(found[3]) if found and found[0] not in "ZX" else -1
