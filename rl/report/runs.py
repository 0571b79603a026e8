"""Reads a run's folder without TensorFlow, also while the run is writing to it."""

from __future__ import annotations

import contextlib
import csv
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rl.errors import Unavailable, UsageError
from rl.storage.files import failure, load_json, patiently, read_text, reason
from rl.storage.manifest import STEP, Damaged, load_manifest

RETURN = "eval/return_mean"
# Hyperparameters of output periods and computation, which do not affect learning.
NOT_LEARNING = {
    "log_period",
    "eval_period",
    "info_keys",
    "stop_at_return",
    "video_period",
    "checkpoint_period",
    "keep_checkpoints",
    "save_buffers",
    "histograms",
    "compile",
    "act_backend",
    "env_timeout",
    "env_restarts",
    "worker_timeout",
    "hang_timeout",
    "compress_rollouts",
}
_FAULTS = (" warning: ", " error: ")  # how lines of train.log say so, behind the time


def read_saved(run_dir: Path, advice: str = "choose another --output_dir") -> dict[str, Any] | None:
    """Reads the `hparams.json` of a run's folder; returns None where there is none. Raises UsageError, which
    ends with the advice, where it cannot be read, or is of something else."""
    path = run_dir / "hparams.json"
    edited = f": was it edited? {advice}".rstrip()
    try:
        saved = load_json(read_text(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        text = f"cannot read {path} ({reason(error)})" + (f": {advice}" if advice else "")
        raise failure(text, error) from error
    except ValueError as error:
        raise UsageError(f"cannot read {path} ({error}){edited}") from error
    if not isinstance(saved, dict) or not _is_saved(saved):
        raise UsageError(f"{path} is none of a run's{edited}")
    return saved


def _is_saved(saved: dict[str, Any]) -> bool:
    kinds = {"name": str | None, "seed": int, "hparams": dict}
    if any(not isinstance(saved.get(key, ...), kinds[key]) for key in kinds):
        return False
    modules, unlike = saved.get("user_modules", []), saved.get("difference_from_default") or {}
    names = [saved["hparams"].get("algo", ""), *modules] if isinstance(modules, list) else [None]
    pairs = unlike.values() if isinstance(unlike, dict) else [None]
    return all(isinstance(each, str) for each in names) and all(
        isinstance(each, list) and len(each) == 2 for each in pairs
    )


class RunData(NamedTuple):
    """The data of a run, read from its folder."""

    path: Path
    name: str  # of its set
    seed: int
    hparams: dict[str, Any]  # nested as they are saved
    difference: dict[str, list[Any]]  # dotted name -> default, value
    workers: bool = False  # whether others played for it

    @property
    def env(self) -> str:
        """Returns the environment's id, or where there is none the data."""
        return str(self.hparams.get("env") or self.hparams.get("data") or "")

    @property
    def unit(self) -> str:
        """Returns what its steps are: those of the environment, or where nothing is played updates."""
        return "updates" if self.hparams.get("memory") == "dataset" else "steps"


def find_runs(place: Path) -> list[RunData]:
    """Returns all runs in and below a folder, sorted by path. Folders inside a run (such as a published
    policy) and incomplete runs are left out.

    Raises:
        UsageError: one of them cannot be read.
    """
    runs, unread = readable_runs(place)
    for error in unread:
        raise error
    return runs


def readable_runs(place: Path) -> tuple[list[RunData], list[UsageError]]:
    """Returns the runs of `find_runs` that can be read, and why others, or folders on the way, cannot.

    Raises:
        Unavailable: one of them cannot be read now, and may be later.
    """
    runs: list[RunData] = []
    unread: list[UsageError] = []

    def failed(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):  # removed in the meantime
            unread.append(failure(f"cannot read {error.filename}: {reason(error)}", error))

    paths: list[Path] = []
    for folder, folders, files in os.walk(place, onerror=failed):
        if "hparams.json" in (*folders, *files):
            folders.clear()  # what is inside a run is none
            path = Path(folder)
            paths += [path] * (path == place or not path.name.startswith("."))
    for path in sorted(paths, key=_in_order):
        try:
            run = _read(path)
        except UsageError as error:
            unread.append(error)
        else:
            runs += [] if run is None else [run]
    for each in unread:
        if isinstance(each, Unavailable):
            raise each
    return runs, unread


def is_policy_alone(run_dir: Path) -> bool:
    """Says whether a folder holds a policy that was taken from a run, as `rl.publish` writes it."""
    folder = run_dir / "checkpoints"
    try:
        names = patiently(lambda: os.listdir(folder), f"cannot read {folder}")
        newest = max(filter(STEP.fullmatch, names), default=None)
        meta = {} if newest is None else load_manifest(folder / newest).meta
    except Unavailable:
        raise
    except (UsageError, Damaged):
        return False  # nothing says so
    return meta.keys() == {"return_mean"}  # those that training writes have the seed, and more


def table(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a table such as metrics.csv; none where it is not there. Lines that are not whole
    are left out.

    Raises:
        UsageError: it cannot be read.
    """

    def read() -> list[dict[str, str]]:
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            return [row for row in csv.DictReader(file) if None not in row and None not in row.values()]

    try:
        return patiently(read)
    except (FileNotFoundError, csv.Error):
        return []
    except OSError as error:
        raise failure(f"cannot read {path}: {reason(error)}", error) from error


def run_columns(run_dir: Path) -> dict[str, np.ndarray]:
    """Returns the columns of a run's metrics.csv, float [rows]; NaN where a row has no such number."""
    rows = table(run_dir / "metrics.csv")
    names = list(rows[0]) if rows else ["step"]
    return {name: np.array([_number(row[name]) for row in rows], float) for name in names}


def metric(run_dir: Path, name: str) -> list[tuple[int, float]]:
    """Returns (step, value) of the rows that have a metric, and have it finite."""
    return series(table(run_dir / "metrics.csv"), name)


def series(rows: Sequence[dict[str, str]], name: str) -> list[tuple[int, float]]:
    """Returns (step, value) of the rows of metrics.csv that have a metric, and have it finite."""
    found = [(_number(row.get("step")), _number(row.get(name))) for row in rows]
    return [(int(step), value) for step, value in found if step is not None and value is not None]


def evaluations(run_dir: Path) -> list[tuple[int, float]]:
    """Returns (step, mean return) of the evaluations during training."""
    return metric(run_dir, RETURN)


def wall_seconds(run_dir: Path) -> dict[int, float]:
    """Returns step -> seconds of training and evaluation until that row of perf.csv, compilation included."""
    found, before, total = {}, 0.0, 0.0
    for row in table(run_dir / "perf.csv"):
        step, rate = _number(row.get("step")), _number(row.get("perf/steps_per_second"))
        if step is None:
            continue
        total += (step - before) / rate if rate else 0.0
        total += _number(row.get("perf/eval_seconds")) or 0.0
        before = step
        found[int(step)] = total
    return found


def faults(run_dir: Path) -> list[str]:
    """Returns the warnings and errors that train.log has; a line that says so where it cannot be read."""
    try:
        text = text_of(run_dir / "train.log")
    except UsageError as error:
        return [str(error)]
    return [line for line in text.splitlines() if any(word in line for word in _FAULTS)]


def films(run_dir: Path) -> list[Path]:
    """Returns the films of a run, the newest last, without those that are being written and what cannot be
    read."""
    found = []
    for film in (run_dir / "videos").glob("*.mp4"):
        with contextlib.suppress(OSError):  # it may be gone, or have no rights
            if not film.name.startswith(".") and is_own(run_dir, film):
                found.append((film.stat().st_mtime, film.name, film))
    return [film for _, _, film in sorted(found)]


def is_own(run_dir: Path, path: Path) -> bool:
    """Says whether a path is a file in a run's folder: a stranger's run may link to any other. Raises
    OSError."""
    return path.is_file() and path.resolve().is_relative_to(run_dir.resolve())


def versions(run_dir: Path) -> dict[str, Any]:
    """Returns what versions.json says; empty where it is not there or damaged."""
    try:
        found = load_json(text_of(run_dir / "versions.json") or "{}")
    except (UsageError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def text_of(path: Path) -> str:
    """Returns the text of a file, and leaves it as it is whatever is in it: a run may be writing it. Empty
    where there is none.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return patiently(lambda: path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise failure(f"cannot read {path}: {reason(error)}", error) from error


def flat(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields dotted name, value of hyperparameters as they are saved."""
    for name, value in values.items():
        if name == "model" and isinstance(value, dict):
            yield from flat(value, f"{name}.")
        else:
            yield prefix + name, value


def _read(path: Path) -> RunData | None:
    saved = read_saved(path, advice="")
    if saved is None:
        return None
    difference = saved.get("difference_from_default") or {}
    workers = bool(saved.get("workers", False))  # older runs do not say
    return RunData(path, str(saved["name"]), saved["seed"], saved["hparams"], difference, workers)


def _number(text: str | None) -> float | None:
    """Returns a cell as a number, None where it is none, or not finite."""
    try:
        value = float(text or "nan")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _in_order(path: Path) -> tuple[Any, ...]:
    """Returns what sorts run_10 behind run_9."""
    return tuple((len(part), part) if part.startswith("run_") else (0, part) for part in path.parts)
