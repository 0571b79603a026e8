"""A CSV file that grows by rows and columns, survives `kill -9` and can be cut back to a step."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path

from rl.storage.files import failure, fsync_path, patiently, read_text, reason, set_aside, write_text_atomic

_log = logging.getLogger("rl.logger")
_BAD_NAME = re.compile(r'[,"\r\n]|^\s*$')


class MetricsTable:
    """Rows `step,cell,...`; each is in the kernel's hands when `append` returns.

    A column appears when its first value does (the file is then rewritten, atomically); cells without a
    value are empty. Opened with `resume_step`, the file is cut back to exactly what it was when the last
    row of that step had been written: later rows, a torn last line and columns that only they used go.
    So a deterministic run that is killed and resumed ends with the bytes of one that was not. A file that an
    earlier run has left, and one with a damaged line, is kept beside it (`metrics.csv.old`).
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
        """Write one row. Raises UsageError when it cannot be written (Unavailable where that may pass),
        ValueError for a bad name."""
        new = sorted(cells.keys() - set(self._columns))
        if bad := [name for name in new if _BAD_NAME.search(name)]:
            raise ValueError(f"a metric cannot be named {bad[0]!r}: no commas, quotes or line ends")
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
        """Make the rows durable."""
        descriptor = self._descriptor
        if descriptor is not None:
            patiently(lambda: os.fsync(descriptor))

    def close(self) -> None:
        """Flush and close; the next `append` opens the file again."""
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
        lines = read_text(self.path).splitlines()[1:] if self._columns else []
        empty = "," * (len(columns) - len(self._columns))
        text = ",".join(["step", *columns]) + "\n" + "".join(f"{line}{empty}\n" for line in lines) + row
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
        lost = not _is_header(header)  # more than what a crash was about to write
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
    return names[0] == "step" and len(set(names)) == len(names) and sound


def _is_text(line: str) -> bool:
    """Whether what was read as `surrogateescape` was UTF-8."""
    return not any("\udc80" <= character <= "\udcff" for character in line)
