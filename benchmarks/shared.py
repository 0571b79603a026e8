"""What the commands of this folder share: mistakes in one line, types of flags, files that are written whole.

Imports neither TensorFlow nor NumPy. `rl` comes first here, so that XLA computes as in train.py.
"""

from __future__ import annotations

import argparse
import csv
import io
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parents[1]
PREY = ROOT / "build" / "prey.npz"  # a policy of EPyMARL's: what teams.py makes and hunt.py plays
# As it was given. What importing `rl` says to XLA from here on is not for other libraries, nor other commits.
ENVIRON = dict(os.environ)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from rl.cli import answered  # noqa: E402
from rl.errors import UsageError, nearest  # noqa: E402
from rl.flags import Parser  # noqa: E402
from rl.flags import integer as integer  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"


class CommandParser(Parser):
    """The parser of a command of this folder."""

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        super().parse_args(args, namespace)  # which says an unknown flag better
        # Where tests of the pages end a command: what the pages show measures for hours.
        return argparse.ArgumentParser.parse_args(self, args, namespace)


def parser(doc: str | None) -> Parser:
    """The parser of a command, whose help is the docstring of its file."""
    return CommandParser(description=doc)


def answer(main: Callable[[], int | None]) -> NoReturn:
    """Runs a command, and ends with its exit code: a UsageError is one line `error: ...`, and 2."""
    sys.exit(answered(lambda: main() or 0))


def number(minimum: float, above: bool = False) -> Callable[[str], float]:
    """Makes an argparse type: finite numbers from `minimum` on, or `above` it."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (minimum < value if above else minimum <= value) or math.isinf(value):
            raise argparse.ArgumentTypeError(
                f"needs a number {'>' if above else '>='} {minimum:g}, not {text!r}"
            )
        return value

    return parse


def set_name(text: str) -> str:
    """Is an argparse type: a named set of hyperparameters."""
    from rl.hparams.merge import named

    named(text)
    return text


def run_folder(text: str) -> Path:
    """Is an argparse type: the folder of a run, or the one that it is in."""
    from rl.storage.address import check_run

    check_run(text, "RUN")
    folder = Path(text)
    return folder if (folder / "hparams.json").exists() else folder / "run_0"


def check_known(flag: str, words: Iterable[str], known: Sequence[str]) -> None:
    """Raises UsageError for a word of a flag that is none of the known ones."""
    for word in words:
        if word not in known:
            raise UsageError(f"{flag}: no {word!r}: {nearest(word, known)}")


def check_program(flag: str, name: str) -> None:
    """Raises UsageError where there is no program of that name, or it cannot be run."""
    if shutil.which(name) is None:
        raise UsageError(f"{flag} {name}: there is no such program; name the python of an environment")


def check_cores(flag: str, numbers: Iterable[int]) -> None:
    """Raises UsageError for a core that this process may not use."""
    usable = sorted(os.sched_getaffinity(0))
    for each in numbers:
        if each not in usable:
            raise UsageError(f"{flag} {each}: there is no such core here, only {', '.join(map(str, usable))}")


def write(path: Path, text: str) -> None:
    """Writes a file whole, or not at all, in a folder that is made where it is missing."""
    from rl.storage.files import write_text_atomic

    path.parent.mkdir(parents=True, exist_ok=True)
    write_text_atomic(path, text)


def read_table(path: Path) -> list[dict[str, Any]]:
    """The rows of a CSV file; none where it is not there."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write_table(path: Path, fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a CSV file as `write` does; of each row its `fields`."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fields, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    write(path, text.getvalue())
