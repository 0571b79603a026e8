"""Ordinary runs as processes of a search: `train.py` in a folder, and its results so far."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rl.cli import INDEX
from rl.errors import AGAIN, Unavailable, UsageError
from rl.hparams.hparams import HParams
from rl.report.runs import evaluations
from rl.signals import end_with_parent
from rl.storage.files import ensure_writable_dir

OUTPUT = "output.txt"  # what a process says
TRIES = 3  # processes of a run that are tried
PATIENCE = 15.0  # seconds that processes have to save and end
POLL = 0.5  # seconds between two looks at a process
TRAIN, GENERATION = (
    f"import sys; from {module} import main; sys.exit(main())" for module in ("rl.cli", "rl.tune.generation")
)
_STOPPED = (129, 130, 143)  # exit codes of a process that was asked to stop, and has saved


class Command(NamedTuple):
    """What a process does: runs of `train.py` in a folder."""

    words: tuple[str, ...]  # flags, but for --output_dir
    folder: Path


def difference(there: Mapping[str, Any], here: Mapping[str, Any]) -> str | None:
    """Returns the first entry of a search's description that `there`, as it was written, has otherwise than
    `here`; None if there is none. Hyperparameters that are younger than `there` had their defaults then."""
    known = dict(there)
    if isinstance(known.get("hparams"), dict):
        known["hparams"] = HParams.from_dict(known["hparams"]).to_dict()
    known, now = json.loads(json.dumps(known)), json.loads(json.dumps(here))
    return next((key for key in now if key in known and known[key] != now[key]), None)


class Process(Protocol):
    """A process of a search (or its replacement in tests)."""

    def poll(self) -> int | None:
        """Returns its exit code, minus the signal that ended it; None while it goes on."""

    def stop(self) -> None:
        """Asks it to save and end."""


class TrainProcess:
    """`train.py` as a process with cores of its own, which ends when this one does.

    Args:
        cores: those that it may use; none: all.
        program: what it runs, with the flags of train.py.
    """

    def __init__(self, command: Command, cores: list[int], program: str = TRAIN):
        folder, parent = ensure_writable_dir(command.folder), os.getpid()

        def prepare() -> None:
            end_with_parent(parent, signal.SIGTERM)
            if cores and hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, cores)

        words = [sys.executable, "-c", program, *command.words, "--output_dir", str(folder)]
        environment = {name: value for name, value in os.environ.items() if name != INDEX}
        with (folder / OUTPUT).open("ab") as output:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                preexec_fn=prepare,
                start_new_session=True,  # a key on the terminal is for this process alone
            )

    def poll(self) -> int | None:
        """Returns its exit code, minus the signal that ended it; None while it goes on."""
        return self._process.poll()

    def stop(self) -> None:
        """Asks it to save and end."""
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()


class Outcome(NamedTuple):
    """How a process ended."""

    kind: str  # "done", "nan", "stopped" (it was asked to), "again" (the same command goes on) or "failed"
    said: str = ""  # its last line, where it failed


def outcome(code: int, asked: bool, folder: Path) -> Outcome:
    """Reads an exit code. asked: whether this process asked for the end."""
    if code == 0:
        return Outcome("done")
    if asked and (code in _STOPPED or code < 0):
        return Outcome("stopped")
    if code == 3:
        return Outcome("nan", _last_line(folder / OUTPUT))
    again = code < 0 or code == AGAIN or code in _STOPPED
    return Outcome("again" if again else "failed", _last_line(folder / OUTPUT))


def again(what: str, ended: Outcome) -> Unavailable:
    """Returns the error for a run that ended with exit code 75 (such as a full disk) too often."""
    return Unavailable(f"{what}: {ended.said}; the same command goes on with it")


def evaluations_per_run(train_steps: int, eval_period: int) -> int:
    """Returns how many evaluations a run has at most: at multiples of the period, and at the end."""
    return -(-train_steps // eval_period)


def points(folder: Path, copies: int, train_steps: int, eval_period: int) -> list[tuple[int, float]]:
    """Returns a trial's (number, score) at each evaluation of its runs, which are trained one after another.

    A score is the mean of that evaluation and the final evaluations of the runs before it. A number stands
    for a run and the multiple of `eval_period` that was passed, so that it means the same training steps in
    all trials: one whose iterations are longer than the period lacks some numbers.
    """
    found: list[tuple[int, float]] = []
    last: list[float] = []
    per_run = evaluations_per_run(train_steps, eval_period)
    for copy in range(copies):
        each = evaluations(folder / f"run_{copy}")
        for step, value in each:
            place = per_run if step >= train_steps else max(step // eval_period, 1)
            found.append((copy * per_run + place - 1, (sum(last) + value) / (len(last) + 1)))
        if not each or each[-1][0] < train_steps:
            break
        last.append(each[-1][1])
    return found


def final(run_dir: Path, train_steps: int) -> float | None:
    """Returns the mean return of a run's last evaluation; None where it is not finished."""
    found = evaluations(run_dir)
    return found[-1][1] if found and found[-1][0] >= train_steps else None


def finish(process: Process, seconds: float) -> int | None:
    """Waits for a process to end; returns its exit code, None where it has not by then."""
    deadline = time.monotonic() + seconds
    while (code := process.poll()) is None and time.monotonic() < deadline:
        time.sleep(0.1)
    return code


def copied(source: Path, target: Path) -> None:
    """Copies a folder, replacing an existing one. Unlike `shutil.copytree`, raises the OSError of the first
    file that cannot be written."""
    shutil.rmtree(target, ignore_errors=True)
    for folder, _, names in os.walk(source):
        there = target / Path(folder).relative_to(source)
        there.mkdir(parents=True)
        for name in names:
            shutil.copy2(Path(folder, name), there / name)


def check_local(folder: str) -> None:
    """Raises UsageError where an output folder is not local."""
    from rl.storage.address import check_whole, is_remote

    if not folder or is_remote(folder):
        raise UsageError(f"--output_dir {folder!r}: a search needs a folder of this machine")
    check_whole(folder)


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")
