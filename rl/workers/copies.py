"""Copies of a run side by side on one machine, in processes with cores of their own.

Each of the `parallel` processes trains one copy after another, and compiles only for the first. A copy whose
process is killed goes on from its last checkpoint in a new process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

from rl.errors import GivenUp, NotSent, Unavailable, UsageError
from rl.imports import import_tensorflow
from rl.report.progress import say
from rl.request import Request
from rl.signals import PATIENCE, StopRequest, end_with_parent
from rl.storage.address import is_remote
from rl.storage.storage import Storage, storage_at
from rl.workers.plan import shares

Rows = list[dict[str, Any]]  # of the summary
Work = Callable[[Request, Storage, int, StopRequest, Any], Rows]  # trains copy N in its storage, with a Kept

POLL = 1.0  # seconds between two looks at the processes
PERIOD = 10.0  # seconds between two tables of progress
TRIES = 3  # lost processes after which a copy is given up
SAVES = 60.0  # seconds that copies have to save when they are asked to stop
LEAVES = 5.0  # seconds that an idle process has to end


class Task(NamedTuple):
    """The parameters of one copy, for a process."""

    request: Request  # without its hparams, whose class may be of a module that is not imported yet
    hparams: dict[str, Any]
    address: str  # of its storage
    copy: int
    work: Work


class Done(NamedTuple):
    """A copy that was trained: its rows, and why its last state was not sent (None: it was)."""

    rows: Rows
    unsent: str | None


class Copy:
    """What a process keeps from one copy to the next, which have the same request and hparams."""

    def __init__(self) -> None:
        self._kept: Any = None
        self._request = Request(None)

    def train(self, task: Task) -> Done:
        """Does the work of one copy; returns its rows, and why its last state was not sent, if so."""
        if self._kept is None:
            self._begin(task)
        storage = storage_at(task.address)
        with StopRequest(announce=False, patience=PATIENCE) as stop:
            rows = task.work(self._request, storage, task.copy, stop, self._kept)
        return Done(rows, storage.unsent)

    def _begin(self, task: Task) -> None:
        from rl.registry import import_user_modules

        import_user_modules(task.request.user_modules)
        from rl.hparams.hparams import HParams
        from rl.runners.kept import Kept
        from rl.systems import use_system

        use_system(task.request.sys)
        self._request = dataclasses.replace(task.request, hparams=HParams.from_dict(task.hparams).freeze())
        self._kept = Kept()


def serve(pipe: Connection, parent: int, cores: list[int], gpu: str | None) -> None:
    """Trains the copies that come through the pipe until it is closed; answers `Done` or an exception.

    parent: id of the process that asks; this one stops and saves when that one dies.
    cores: those that this process may use; none: all.
    gpu: the one that it may use; None: all.
    """
    os.setpgid(0, 0)  # a key on the terminal reaches the parent alone, which asks all to save
    end_with_parent(parent, signal.SIGTERM)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)  # runs have logs of their own
    os.dup2(nowhere, 2)
    if cores:
        os.sched_setaffinity(0, cores)
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    import_tensorflow()  # with programs that were compiled for so many cores
    copy = Copy()
    with contextlib.suppress(EOFError):
        while True:
            task = pipe.recv()
            try:
                pipe.send(copy.train(task))
            except Exception as error:
                pipe.send(_portable(error))


def _portable(error: Exception) -> Exception:
    """Returns an exception for another process: one of those that a copy may end with, by its text, or any
    other one with its traceback."""
    for kind in (Unavailable, UsageError, GivenUp, NotSent):
        if isinstance(error, kind):
            return kind(str(error))
    return RuntimeError("".join(traceback.format_exception(error)))


def side_by_side(
    request: Request, storages: list[Storage], stop: StopRequest, work: Work
) -> tuple[Rows, list[Exception]]:
    """Trains and tests all copies, `parallel` at a time; returns their lines of the summary, and the errors
    of copies whose failure does not stop the others (GivenUp, NotSent, Unavailable). `Storage.unsent` says
    what could not be uploaded of a copy.

    work: of one copy, as `rl.experiment.one_copy`; a function of a module.

    Raises:
        UsageError: what a copy raises; the others stop and save.
    """
    copies = _Copies(request, storages, work)
    told, asked = time.monotonic(), False
    try:
        while copies.go_on(starts=not stop.requested):
            if stop.requested and not asked:
                asked = True
                copies.ask_to_stop()
            if time.monotonic() - told >= PERIOD:
                told = time.monotonic()
                say(copies.table())
    finally:
        copies.close()
    return [row for copy in sorted(copies.rows) for row in copies.rows[copy]], copies.failed


class _Place:
    """Cores, their process, and the copy that has them now."""

    def __init__(self, cores: list[int], gpu: str | None):
        self.cores, self.gpu = cores, gpu
        self.copy: int | None = None  # None: the place is free
        self.process: Any = None  # None: there is none yet, or no more
        self.pipe: Any = None  # to it

    def start(self) -> None:
        """Starts a process, unless there is one."""
        if self.process is not None:
            return
        processes = multiprocessing.get_context("spawn")  # TensorFlow's threads do not outlive a fork
        self.pipe, its_end = processes.Pipe()
        given = (its_end, os.getpid(), self.cores, self.gpu)
        self.process = processes.Process(target=serve, args=given, name="copies")
        self.process.start()
        its_end.close()

    def end(self) -> None:
        """Ends the process, if there is one: its memory, and the cores that TensorFlow has taken."""
        if self.process is None:
            return
        self.pipe.close()
        self.process.join(LEAVES)
        self.process.kill()
        self.process.join()
        self.process = None


class _Copies:
    """All copies of a run: waiting, in training, and finished ones with their results."""

    def __init__(self, request: Request, storages: list[Storage], work: Work):
        assert request.hparams is not None
        self._hparams = request.hparams.to_dict()
        self._request, self._storages = dataclasses.replace(request, hparams=None), storages
        self._work = work
        gpus = _gpus() if request.sys == "gpu" else []
        self._places = [
            _Place(cores, gpus[i % len(gpus)] if gpus else None)
            for i, cores in enumerate(shares(request.parallel))
        ]
        self._waiting, self._lost = list(range(len(storages))), [0] * len(storages)
        self._begun = time.monotonic()
        self.rows: dict[int, Rows] = {}  # by copy, of the summary
        self._errors: dict[int, Exception] = {}  # by copy, of those that failed by themselves
        self._asked = False  # to stop

    @property
    def failed(self) -> list[Exception]:
        """Why copies have no line, in their order."""
        return [self._errors[copy] for copy in sorted(self._errors)]

    def go_on(self, starts: bool) -> bool:
        """Fills free places (where `starts`), waits a little for a copy to end; False once none is left."""
        for place in self._places:
            if place.copy is None and self._waiting and starts:
                self._start(place, self._waiting.pop(0))
        busy = self._busy()
        if not busy:
            return bool(self._waiting) and starts
        ready = wait([place.pipe for place in busy], timeout=POLL)
        for place in busy:
            if place.pipe in ready:
                self._finish(place)
        return True

    def ask_to_stop(self) -> None:
        """Asks the copies in training to save and end; one within a long iteration ends without saving."""
        self._asked = True
        for place in self._busy():
            with contextlib.suppress(OSError):
                os.kill(place.process.pid, signal.SIGTERM)

    def table(self) -> str:
        """Returns a line for each copy of how far it is: the last line of its log, or why it failed."""
        lines = [f"-- after {time.monotonic() - self._begun:.0f} s"]
        running = {place.copy for place in self._busy()}
        for copy, storage in enumerate(self._storages):
            said = "done" if copy in self.rows else "waiting"
            if copy in self._errors:
                said = f"failed: {self._errors[copy]}"
            elif copy in running:
                said = _last_line(storage.folder / "train.log") or "starting"
            lines.append(f"run_{copy}  {said}")
        return "\n".join(lines)

    def close(self) -> None:
        """Ends what is under way, after it has saved."""
        self.ask_to_stop()
        deadline = time.monotonic() + SAVES
        waited = [place.pipe for place in self._busy()]
        while waited and (left := deadline - time.monotonic()) > 0.0:
            for pipe in wait(waited, timeout=left):
                waited.remove(pipe)
        for place in self._places:
            place.end()

    def _busy(self) -> list[_Place]:
        return [place for place in self._places if place.copy is not None]

    def _start(self, place: _Place, copy: int) -> None:
        place.start()
        place.copy = copy
        task = Task(self._request, self._hparams, self._storages[copy].address, copy, self._work)
        with contextlib.suppress(OSError):  # it is gone already, as reading from it will tell
            place.pipe.send(task)

    def _finish(self, place: _Place) -> None:
        assert place.copy is not None
        copy, place.copy = place.copy, None
        storage = self._storages[copy]
        try:
            answer = place.pipe.recv()
        except (EOFError, OSError):
            place.end()
            if self._asked:
                saved = is_remote(storage.address) or any(storage.folder.glob("checkpoints/step_*"))
                kept = "at its last checkpoint" if saved else "before its first checkpoint"
                say(f"{storage.address}: ended within a long iteration, {kept}")
            else:
                self._was_lost(copy)
            return
        if not isinstance(answer, Done) or not self._waiting:
            place.end()
        if isinstance(answer, Done):
            self.rows[copy], storage.unsent = answer
        elif isinstance(answer, GivenUp | NotSent | Unavailable):
            say(f"{storage.address}: {answer}")
            self._errors[copy] = answer
        else:
            raise answer

    def _was_lost(self, copy: int) -> None:
        """Queues a copy whose process is gone for another one. The third time it counts as a temporary
        failure (Unavailable), since memory may have been short."""
        address = self._storages[copy].address
        self._lost[copy] += 1
        if self._lost[copy] >= TRIES:
            self._errors[copy] = Unavailable(f"{address}: its process was lost {TRIES} times")
            say(str(self._errors[copy]))
            return
        say(f"{address}: its process was lost, going on from its last checkpoint")
        self._waiting.insert(0, copy)


def _gpus() -> list[str]:
    """The GPUs of this machine that this process may use, by CUDA's number; none where nothing tells.

    CUDA counts those that it finds from 0 on, whatever their files are called: a container that was given the
    third GPU of its machine has /dev/nvidia3 alone, and calls it 0.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [each for each in named.split(",") if each]
    return [str(number) for number, _ in enumerate(Path("/dev").glob("nvidia[0-9]*"))]


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return lines[-1][20:] if lines else ""  # without date and time
