"""Copies of a run side by side on one machine, in processes with cores of their own.

Ray starts the processes, `parallel` of them. Each trains one copy after another, with what it has compiled
for the first. A copy whose process is killed goes on from its last checkpoint in a new one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rl.errors import GivenUp, Unavailable, UsageError
from rl.imports import import_tensorflow
from rl.request import Request
from rl.signals import PATIENCE, StopRequest
from rl.storage.storage import Storage, storage_at
from rl.workers.cluster import Cluster
from rl.workers.plan import shares

Rows = list[dict[str, Any]]  # of the summary
Work = Callable[[Request, Storage, int, StopRequest, Any], Rows]  # on copy N, where its storage says; a Kept

POLL = 1.0  # seconds between two looks at the processes
PERIOD = 10.0  # seconds between two tables of progress
TRIES = 3  # processes that a copy may lose


class Copy:
    """A process that trains copies, one after another.

    Args:
        cores: those that it may use; none: all.
    """

    def __init__(self, cores: list[int]):
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)
        self._kept: Any = None  # what copies share
        self._request = Request(None)  # with hparams: of all copies

    def pid(self) -> int:
        """Of this process."""
        return os.getpid()

    def prepare(self) -> None:
        """Does what takes long and needs no answer, before what `train` is given imports it otherwise."""
        import_tensorflow()  # with programs that were compiled for so many cores

    def train(
        self, request: Request, hparams: dict[str, Any], address: str, copy: int, work: Work
    ) -> tuple[Rows, str | None]:
        """Does the work of one copy; returns its rows, and why its last state was not sent (None: it was).

        request: the same at each call; without its hparams, whose class may be of a module that is not
            imported yet.
        """
        if self._kept is None:
            self._begin(request, hparams)
        storage = storage_at(address)
        with StopRequest(announce=False, patience=PATIENCE) as stop:
            rows = work(self._request, storage, copy, stop, self._kept)
        return rows, storage.unsent

    def _begin(self, request: Request, hparams: dict[str, Any]) -> None:
        from rl.registry import import_user_modules

        import_user_modules(request.user_modules)
        from rl.hparams.hparams import HParams
        from rl.runners.kept import Kept
        from rl.systems import use_system

        use_system(request.sys)
        self._request = dataclasses.replace(request, hparams=HParams.from_dict(hparams).freeze())
        self._kept = Kept()


class _Place:
    """Cores, their process, and the copy that has them now."""

    def __init__(self, cores: list[int]):
        self.cores = cores
        self.copy, self.pid = -1, 0
        self.actor: Any = None  # the process; None: there is none yet, or no more
        self.result: Any = None  # what the copy will come to; None: the place is free


def side_by_side(
    request: Request, storages: list[Storage], stop: StopRequest, work: Work
) -> tuple[Rows, list[Exception]]:
    """Trains and tests all copies, `parallel` at a time; their lines of the summary, and the errors of those
    that failed where others may not (GivenUp, Unavailable). A storage says what could not be sent of its
    copy.

    work: of one copy, as `rl.experiment.one_copy`.

    Raises:
        UsageError: what a copy raises, or one that is killed again and again; the others stop and save.
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
                print(copies.table(), flush=True)
    finally:
        copies.close()
    return [row for copy in sorted(copies.rows) for row in copies.rows[copy]], copies.failed


class _Copies:
    """All copies of a run: those that wait, those under way, and what came of the others."""

    def __init__(self, request: Request, storages: list[Storage], work: Work):
        assert request.hparams is not None
        self._cluster = Cluster(None, request.parallel)
        self._ray = self._cluster.ray
        self._hparams = request.hparams.to_dict()
        self._request, self._storages = dataclasses.replace(request, hparams=None), storages
        self._work = work
        self._places = [_Place(cores) for cores in shares(request.parallel)]
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
        """Fills free places (where `starts`), waits a little for a copy to end; False once none is left.
        Raises LearnerLost where Ray itself is gone."""
        self._cluster.check()
        free = [place for place in self._places if place.result is None] if starts else []
        chosen = list(zip(free, self._waiting, strict=False))
        for place, _ in chosen:  # the processes start together
            self._give_process(place)
        del self._waiting[: len(chosen)]
        for place, copy in chosen:
            self._start(place, copy)
        busy = self._busy()
        if not busy:  # unless one that waits was lost while it started
            return bool(self._waiting) and starts
        ready, _ = self._ray.wait([place.result for place in busy], num_returns=1, timeout=POLL)
        for place in busy:
            if place.result in ready:
                self._finish(place)
        return True

    def ask_to_stop(self) -> None:
        """Lets the copies under way save and end; one that is within a long iteration ends there."""
        self._asked = True
        for place in self._busy():
            with contextlib.suppress(OSError):
                os.kill(place.pid, signal.SIGTERM)

    def table(self) -> str:
        """How far each copy is: the last line of its log, or why it failed."""
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
        with contextlib.suppress(Exception):
            results = [place.result for place in self._busy()]
            self._ray.wait(results, num_returns=len(results), timeout=60.0)
        self._cluster.close()

    def _busy(self) -> list[_Place]:
        return [place for place in self._places if place.result is not None]

    def _give_process(self, place: _Place) -> None:
        """Starts a process where there is none; it has no id yet."""
        if place.actor is None:
            gpu = 1.0 / len(self._places) if self._request.sys == "gpu" else 0
            place.actor = self._ray.remote(Copy).options(num_cpus=1, num_gpus=gpu).remote(place.cores)
            place.pid = 0

    def _start(self, place: _Place, copy: int) -> None:
        place.copy = copy
        if not place.pid:
            try:
                place.pid = self._answer(place.actor.pid.remote())
            except self._ray.exceptions.RayError:
                place.actor = None
                self._was_lost(copy)
                return
            place.actor.prepare.remote()
        address = self._storages[copy].address
        place.result = place.actor.train.remote(self._request, self._hparams, address, copy, self._work)

    def _finish(self, place: _Place) -> None:
        copy, result, place.result = place.copy, place.result, None
        actor, place.actor = place.actor, None  # its memory, and the cores that TensorFlow has taken
        storage = self._storages[copy]
        errors = self._ray.exceptions
        try:
            self.rows[copy], storage.unsent = self._ray.get(result)
            if self._waiting:
                place.actor = actor  # for the next copy
        except errors.RayTaskError as error:
            cause = error.cause
            if not isinstance(cause, GivenUp | Unavailable):
                raise (cause if isinstance(cause, UsageError) else error) from None
            print(f"{storage.address}: {cause}", flush=True)
            self._errors[copy] = cause
        except errors.RayError:
            if self._asked:
                print(f"{storage.address}: ended within a long iteration, at its last checkpoint", flush=True)
                return
            self._was_lost(copy)
        finally:
            if place.actor is None:
                self._ray.kill(actor)

    def _answer(self, result: Any) -> Any:
        """Waits for what a process answers, as long as Ray is well."""
        while not self._ray.wait([result], timeout=POLL)[0]:
            self._cluster.check()
        return self._ray.get(result)

    def _was_lost(self, copy: int) -> None:
        """Lets a copy whose process is gone wait for another one. Raises UsageError the third time."""
        self._cluster.check(now=True)
        address = self._storages[copy].address
        self._lost[copy] += 1
        if self._lost[copy] >= TRIES:
            raise UsageError(f"the process of {address} was lost {TRIES} times") from None
        print(f"{address}: its process was lost, going on from its last checkpoint", flush=True)
        self._waiting.insert(0, copy)


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return lines[-1][20:] if lines else ""  # without date and time
