"""The logger of a run's metrics: `metrics.csv`, `perf.csv`, TensorBoard, and a tracker if one is named."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rl.errors import UsageError
from rl.report.events import EventFile
from rl.report.tracking import Tracking
from rl.report.video import Preview
from rl.storage.files import failure, fsync_path, patiently, read_text, reason, set_aside, write_text_atomic

PERF = "perf/"  # metrics that are not reproducible (rates, times); they have a file of their own
_STEP = "step"  # the first column of a table
_BAD_NAME = re.compile(r'[,"\r\n]|^\s*$')
_log = logging.getLogger("rl.logger")


class Logger:
    """Writes the metrics of one run into `run_dir`.

    `metrics.csv` holds what a deterministic run reproduces bit for bit, `perf.csv` the `perf/*` metrics;
    both also go to TensorBoard, as do histograms of the variables that the regular expression
    `histograms` finds, and to the tracker called `track` (`rl.report.tracking`), where the run is called
    `name`. `resume_step` is the step of the restored checkpoint; None for a new run, which renames the files
    that an earlier run left. For a resumed run's `metrics.csv` to equal the uninterrupted one's, log
    everything of a step, call `flush()`, and only then save its checkpoint.
    """

    def __init__(
        self,
        run_dir: str | os.PathLike[str],
        histograms: str | None = None,
        resume_step: int | None = None,
        track: str | None = None,
        name: str = "",
    ):
        try:
            self._pattern = re.compile(histograms) if histograms else None
        except re.error as error:
            raise UsageError(f"histograms: {histograms!r} is not a regular expression ({error})") from error
        run_dir = Path(run_dir)
        try:
            patiently(lambda: run_dir.mkdir(parents=True, exist_ok=True))
            self._metrics = patiently(lambda: MetricsTable(run_dir / "metrics.csv", resume_step))
            self._perf = patiently(lambda: MetricsTable(run_dir / "perf.csv", resume_step))
            self._events = EventFile(run_dir, resume_step)
        except OSError as error:
            raise failure(f"cannot write logs in {run_dir}: {reason(error)}", error) from error
        resumed = resume_step is not None
        self._tracking = None if track is None else Tracking(track, run_dir, name or run_dir.name, resumed)
        self._begins, self._last_step = resume_step is None, -1 if resume_step is None else resume_step
        self._warned: set[str] = set()

    def __enter__(self) -> Logger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def log(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Writes one row of scalars (numbers, numpy or TensorFlow scalars); None means that there is no
        value.

        Steps must not go back. Raises UsageError when the row cannot be written.
        """
        step = int(step)
        if step < self._last_step:
            raise ValueError(f"step {step} was logged after step {self._last_step}")
        self._last_step = step
        values = {name: _scalar(name, value) for name, value in metrics.items() if value is not None}
        for name, value in values.items():
            if not np.isfinite(value):
                self._warn_once(name, f"metric {name} is {value} at step {step}")
        perf = {name: _cell(value) for name, value in values.items() if name.startswith(PERF)}
        rest = {name: _cell(value) for name, value in values.items() if not name.startswith(PERF)}
        if perf:
            self._perf.append(step, perf)
        if rest:
            self._metrics.append(step, rest)
        if values:
            row = {name: float(value) for name, value in values.items()}
            self._events.scalars(step, row)
            if self._tracking is not None:
                self._tracking.row(step, row)

    def log_histograms(self, step: int, variables: Mapping[str, Any]) -> None:
        """Writes histograms, tagged `variables/NAME`, of the variables whose name the regular expression
        finds."""
        if self._pattern is None:
            return
        chosen = {name: value for name, value in variables.items() if self._pattern.search(name)}
        if not chosen:
            some = ", ".join(sorted(variables)[:4])
            self._warn_once(
                "histograms",
                f"histograms={self._pattern.pattern!r} finds none of the variables ({some}, ...)",
            )
        for name, variable in chosen.items():
            values = np.asarray(variable).astype(np.float64)
            if not np.isfinite(values).all():
                self._warn_once(name, f"variable {name} has values that are not finite at step {step}")
            self._events.histogram(int(step), f"variables/{name}", values)

    def log_video(self, step: int, name: str, preview: Preview) -> None:
        """Shows a film's preview in TensorBoard, among the images."""
        height, width = preview.kept[0].shape[:2]
        self._events.animation(int(step), name, preview.gif(), height, width)

    def log_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Writes the hyperparameters to TensorBoard's HParams plugin, if the run is new, and to the tracker,
        if the run is new there; nested mappings become `a.b`, other values their text."""
        if self._begins:
            self._events.hparams(_flat(hparams))
        if self._tracking is not None and self._tracking.new:
            self._tracking.hparams(_flat(hparams))

    def log_graph(self, function: Any) -> None:
        """Writes the graph of a ConcreteFunction."""
        self._events.graph(function.graph.as_graph_def(add_shapes=True).SerializeToString())

    def flush(self) -> None:
        """Makes everything durable: call it before each checkpoint. Raises Unavailable on a full disk."""
        for file in (self._metrics, self._perf, self._events):
            with _writing(file.path):
                file.flush()

    def close(self) -> None:
        """Flushes and closes all files. Raises as `flush`."""
        if self._tracking is not None:
            self._tracking.close()
        self.flush()
        for file in (self._metrics, self._perf, self._events):
            with _writing(file.path):
                file.close()

    def _warn_once(self, key: str, message: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            _log.warning("%s", message)


class MetricsTable:
    """A CSV file of rows `step,cell,...`; each row is written (not fsynced) when `append` returns.

    A column is added with its first value (the file is then rewritten, atomically); cells without a value are
    empty. Opened with `resume_step`, the file is cut back to its exact content after the last row of that
    step: later rows, an incomplete last line and columns of later rows are removed. So a deterministic run
        that is
    killed and resumed ends with the same bytes as an uninterrupted one. A file of an earlier run is renamed
    (`metrics.csv.old`), as is one with a wrong header or a damaged line before its last.
    """

    def __init__(self, path: str | os.PathLike[str], resume_step: int | None = None):
        self.path = Path(path)
        self._columns: list[str] = []
        self._descriptor: int | None = None
        if resume_step is None:
            if self.path.exists():  # of a run whose checkpoints are gone, or that never got to one
                set_aside(self.path)
        elif self.path.exists():
            self._cut_back(resume_step)

    def append(self, step: int, cells: Mapping[str, str]) -> None:
        """Writes one row. Raises UsageError when it cannot be written (Unavailable where that may pass),
        ValueError for a bad name."""
        new = sorted(cells.keys() - set(self._columns))
        if bad := [name for name in new if name == _STEP or _BAD_NAME.search(name)]:
            why = "that is the first column" if bad[0] == _STEP else "no commas, quotes or line ends"
            raise ValueError(f"a metric cannot be named {bad[0]!r}: {why}")
        columns = self._columns + new
        row = ",".join([str(int(step)), *(cells.get(name, "") for name in columns)]) + "\n"
        try:
            if new or self._descriptor is None:
                self._rewrite(columns, row)
            else:
                descriptor, data = self._descriptor, row.encode()
                patiently(lambda: self._write(descriptor, data))
        except OSError as error:
            text = f"cannot write {self.path}: {reason(error)}"
            raise failure(f"{text}; free space, then give the same command to resume", error) from error

    def flush(self) -> None:
        """Makes the rows durable."""
        descriptor = self._descriptor
        if descriptor is not None:
            patiently(lambda: os.fsync(descriptor))

    def close(self) -> None:
        """Flushes and closes; the next `append` opens the file again."""
        if self._descriptor is not None:
            self.flush()
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, descriptor: int, data: bytes) -> None:
        size = os.fstat(descriptor).st_size
        try:
            while data:
                data = data[os.write(descriptor, data) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)  # no half a row for a later one to follow
            raise

    def _rewrite(self, columns: list[str], row: str) -> None:
        # Not splitlines, which takes more characters for ends of lines than a table has.
        lines = read_text(self.path).removesuffix("\n").split("\n")[1:] if self._columns else []
        empty = "," * (len(columns) - len(self._columns))
        text = ",".join([_STEP, *columns]) + "\n" + "".join(f"{line}{empty}\n" for line in lines) + row
        self.close()
        write_text_atomic(self.path, text)
        self._descriptor = patiently(lambda: os.open(self.path, os.O_WRONLY | os.O_APPEND))
        self._columns = columns

    def _cut_back(self, resume_step: int) -> None:
        data = b"" if self.path.is_dir() else self.path.read_bytes()
        lines = data.decode("utf-8", errors="surrogateescape").split("\n")
        complete, torn = lines[:-1], lines[-1]
        header = complete[0].split(",") if complete else [""]
        rows: list[list[str]] = []
        lost = not _is_header(header)  # a crash during a write cannot cause that
        for i, line in enumerate([] if lost else complete[1:]):
            row = line.split(",")
            if len(row) != len(header) or not row[0].isdecimal() or not _is_text(line):
                torn, lost = line, i + 2 < len(complete)
                break
            if int(row[0]) <= resume_step:
                rows.append(row)
        if lost:
            set_aside(self.path, "is damaged: it goes on from the rows before that, and what was there")
        elif torn:
            _log.warning("%s had a damaged line: the file goes on from the rows before it", self.path)
        if not rows:
            self.path.unlink(missing_ok=True)
            return
        used = [i for i in range(len(header)) if i == 0 or any(row[i] for row in rows)]
        text = "".join(",".join(row[i] for i in used) + "\n" for row in [header, *rows])
        if text.encode() != data or not self.path.exists():
            write_text_atomic(self.path, text)
        fsync_path(self.path)
        self._columns = [header[i] for i in used[1:]]
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)


def _is_header(names: list[str]) -> bool:
    sound = all(_is_text(name) and not _BAD_NAME.search(name) for name in names)
    return names[0] == _STEP and len(set(names)) == len(names) and sound


def _is_text(line: str) -> bool:
    """Says whether text that was read with `surrogateescape` was valid UTF-8."""
    return not any("\udc80" <= character <= "\udcff" for character in line)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise failure(f"cannot write {path}: {reason(error)}", error) from error


def _scalar(name: str, value: Any) -> int | np.float32:
    """Returns an integer exactly, else a float32: what training computes in, and CSV keeps exactly."""
    array = np.asarray(value)
    if array.shape != ():
        raise ValueError(f"metric {name} has shape {array.shape}: metrics are scalars")
    if array.dtype.kind in "biu":
        return int(array)
    with np.errstate(over="ignore"):
        return np.float32(array.astype(np.float32))


def _cell(value: int | np.float32) -> str:
    return str(value)  # of a float32, the shortest text that reads back to the same bits


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, bool | int | float | str]:
    flat: dict[str, bool | int | float | str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{prefix}{name}."))
        elif isinstance(value, (bool, int, float, str)):
            flat[prefix + name] = value
        else:
            flat[prefix + name] = json.dumps(value, default=str)
    return flat
