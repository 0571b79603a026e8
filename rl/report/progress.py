"""The progress display of a run: a live line on a terminal, dated lines elsewhere and in `train.log`."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from rl.report.tables import plain_table, terminal_table
from rl.storage.files import failure, patiently, reason

_WINDOW = 30.0  # seconds that the shown rate is averaged over
_REFRESH = 0.2  # seconds between two drawings of the live line


class Progress:
    """Context manager: `update` as often as you like, `message` for a line of its own.

    On a terminal it draws one live line (steps, steps/s, mean returns, time left). Elsewhere, and in the
    file `log_path`, it writes the same as a timestamped line at most every `interval` seconds, and once at
    the end. Inside it, warnings of the `rl` loggers become messages. The rate leaves out the time before
    the first update, which is mostly compilation. `step` is the first step; `unit` the word for what is
    counted.
    """

    def __init__(
        self,
        total_steps: int,
        log_path: str | os.PathLike[str] | None = None,
        stream: TextIO | None = None,
        interval: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
        step: int = 0,
        unit: str = "steps",
    ):
        self._unit = unit
        self._total = total_steps
        self._log_path = None if log_path is None else Path(log_path)
        self._stream = sys.stdout if stream is None else stream
        self._interval = interval
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()
        self._step = step
        self._returns: dict[str, float] = {}  # the newest mean returns, by "train" or "eval"
        self._more: dict[str, float] = {}  # the newest of other means, by what they are called
        self._written_at: float | None = None
        self._written_step: int | None = None
        self._drawn_at: float | None = None
        self._file: TextIO | None = None
        self._live: RichProgress | None = None
        self._handler = _Handler(self)

    def __enter__(self) -> Progress:
        if self._log_path is not None:
            path = self._log_path
            try:
                # errors="replace": a log must not fail over a character
                self._file = patiently(lambda: path.open("a", encoding="utf-8", errors="replace"))
            except OSError as error:
                raise failure(f"cannot write {path}: {reason(error)}", error) from error
        console = Console(file=self._stream)
        if console.is_terminal and not console.is_dumb_terminal:
            wrapped = Column(overflow="fold")  # by default what a narrow terminal has no room for is cut off
            text = TextColumn("{task.description}", markup=False, table_column=wrapped)
            columns = (BarColumn(bar_width=20), text)
            self._live = RichProgress(*columns, console=console, auto_refresh=False)
            self._task = self._live.add_task("starting", total=self._total, completed=self._step)
            self._live.start()
        logger = logging.getLogger("rl")
        self._level = logger.level
        logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
        logger.addHandler(self._handler)
        self._propagates = logger.propagate
        logger.propagate = False  # else a handler that a library gave the root logger repeats it
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("rl")
        logger.removeHandler(self._handler)
        logger.setLevel(self._level)
        logger.propagate = self._propagates
        if self._samples and self._written_step != self._step:
            self._write_line(self.line(), plain=self._live is None)
        if self._live is not None:
            self._draw()
            with unbroken(self._stream):
                self._live.stop()
            self._live = None
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def update(
        self,
        step: int,
        train_return: float | None = None,
        eval_return: float | None = None,
        more: Mapping[str, float] | None = None,
    ) -> None:
        """Sets the run's step, and the mean returns of training episodes and of the evaluation; None keeps
        the last value. more: other means to be shown, by name; those not given keep theirs."""
        now = self._clock()
        self._step = int(step)
        self._more |= more or {}
        for whose, mean in (("train", train_return), ("eval", eval_return)):
            if mean is not None:
                self._returns[whose] = float(mean)
        self._samples.append((now, self._step))
        while len(self._samples) > 2 and now - self._samples[1][0] >= _WINDOW:
            self._samples.popleft()
        if self._written_at is None or now - self._written_at >= self._interval:
            self._written_at, self._written_step = now, self._step
            self._write_line(self.line(), plain=self._live is None)
        if self._live is not None and (self._drawn_at is None or now - self._drawn_at >= _REFRESH):
            self._drawn_at = now
            self._draw()

    def message(self, text: str) -> None:
        """Writes a line of its own, on the screen and in the log."""
        self._write_line(text, plain=self._live is None)
        if self._live is not None:
            with unbroken(self._stream):
                self._live.console.print(Text(text))

    @property
    def step(self) -> int:
        """Returns how far the run is, by what was last told."""
        return self._step

    @property
    def steps_per_second(self) -> float | None:
        """Returns the rate over the last half minute; None before there are two updates."""
        if len(self._samples) < 2:
            return None
        (start, first), (end, last) = self._samples[0], self._samples[-1]
        return (last - first) / (end - start) if end > start else None

    def line(self) -> str:
        """Returns `12,800/100,000 steps  5,120 steps/s  train return 123.4  eval return 145.0  ETA 0:17`,
        without what is not known yet; other means come before the ETA."""
        parts = [f"{self._step:,}/{self._total:,} {self._unit}"]
        rate = self.steps_per_second
        if rate is not None:
            parts.append(f"{rate:,.{0 if rate >= 10 else 2}f} {self._unit}/s")
        returns = {f"{whose} return": mean for whose, mean in sorted(self._returns.items(), reverse=True)}
        for name, mean in (returns | self._more).items():
            parts.append(f"{name} {mean:.{1 if abs(mean) >= 10 else 3}f}")
        if rate:
            parts.append(f"ETA {_duration(max(0, self._total - self._step) / rate)}")
        return "  ".join(parts)

    def _draw(self) -> None:
        if self._live is not None:
            with unbroken(self._stream):
                self._live.update(self._task, completed=self._step, description=self.line(), refresh=True)

    def _write_line(self, text: str, plain: bool) -> None:
        stamped = f"{datetime.now():%Y-%m-%d %H:%M:%S} {text}"
        if self._file is not None:
            with contextlib.suppress(OSError):  # no run ends for its log: a full disk is told elsewhere
                print(stamped, file=self._file, flush=True)
        if plain:
            with unbroken(self._stream):
                try:
                    print(stamped, file=self._stream, flush=True)
                except UnicodeEncodeError:  # an ASCII-only stream
                    print(ascii(stamped), file=self._stream, flush=True)


@contextlib.contextmanager
def unbroken(stream: TextIO) -> Iterator[None]:
    """Keeps printing in the `with` block from raising an error where the stream's reader is gone (a closed
    pipe, a terminal that hung up): that output, and all later output, is discarded."""
    try:
        yield
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(line: str) -> None:
    """Prints a line and flushes it; if the reader is gone, only the line is lost."""
    with unbroken(sys.stdout):
        print(line, flush=True)


class _Handler(logging.Handler):
    """Turns log records into messages of the progress display."""

    def __init__(self, progress: Progress):
        super().__init__()
        self._progress = progress

    def emit(self, record: logging.LogRecord) -> None:
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        self._progress.message(level + record.getMessage())


def summary_table(
    rows: Sequence[Mapping[str, Any]], title: str | None = None, stream: TextIO | None = None
) -> None:
    """Prints the small table at the end of a run: a line per mapping, its keys being the columns.

    A single mapping is printed downwards, a line per key: paths are long. Plain text off a terminal.
    """
    stream = sys.stdout if stream is None else stream
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if len(rows) == 1:
        header: list[str] = []
        cells = [[name, _text(rows[0][name])] for name in columns]
    else:
        header, cells = columns, [[_text(row.get(name)) for name in columns] for row in rows]
    with unbroken(stream):
        if cells and Console(file=stream).is_terminal:
            terminal_table(cells, header, title, stream)
        elif cells:
            if title:
                print(title, file=stream)
            plain_table([header, *cells] if header else cells, stream)
        stream.flush()


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
