"""Learning curves and tables of runs: `python -m rl.plot --help`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rl.cli import answered
from rl.errors import UsageError
from rl.flags import Parser

if TYPE_CHECKING:
    from rl.plot.methods import Methods

EXAMPLES = """examples:
  python -m rl.plot runs/ppo_cartpole runs/dqn_cartpole                            tables on the terminal
  python -m rl.plot runs/ppo_cartpole runs/dqn_cartpole --out curves.png --out tables.md
  python -m rl.plot runs/tune_ppo_cartpole/judged --html report.html
"""
ENDINGS = (".png", ".svg", ".md")
RETURN = "eval/return_mean"


def build_parser() -> argparse.ArgumentParser:
    """Builds the parser of all flags."""
    parser = Parser(
        prog="python -m rl.plot",
        description="Compares runs: curves with 95 % intervals by steps and by wall time, tables, profiles. "
        "Runs of the same hyperparameters are one method, whatever their seeds.",
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a run's folder, or one that runs are in, at whatever depth")
    text = f"written by its ending, {', '.join(ENDINGS)}; may be repeated (default: tables on the terminal)"
    add("--out", action="append", default=[], metavar="FILE", help=text)
    add("--html", metavar="FILE", help="one page of all runs that stands alone")
    add("--metric", default=RETURN, metavar="NAME", help=f"of metrics.csv (default {RETURN})")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code (2 for a mistake in what was typed)."""

    def work() -> int:
        args = build_parser().parse_args(argv)
        _check(args)
        return _plot(args)

    return answered(work)


def _check(args: argparse.Namespace) -> None:
    """Raises UsageError for files that cannot be written, and folders that are none."""
    from rl.plot.figures import check_matplotlib
    from rl.storage.address import check_run, is_remote

    for name in args.out:
        if Path(name).suffix.lower() not in ENDINGS:
            raise UsageError(f"--out {name}: needs an ending of {', '.join(ENDINGS)}")
    if args.html is not None and Path(args.html).suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--html {args.html}: needs the ending .html")
    for name in filter(None, [*args.out, args.html]):
        if not Path(name).parent.is_dir() or Path(name).is_dir():
            raise UsageError(f"cannot write {name}: {Path(name).parent} is no folder, or {name} is one")
    if args.html is not None or any(not name.lower().endswith(".md") for name in args.out):
        check_matplotlib()
    for run in args.runs:
        if is_remote(run):
            raise UsageError(f"{run}: curves are read from this machine, copy the run here first")
        if not Path(run).is_dir():
            check_run(run, "RUN")


def _plot(args: argparse.Namespace) -> int:
    from rl.plot.counted import found_runs, told
    from rl.plot.methods import markdown, methods_of

    runs, notes = found_runs(args.runs)
    if not runs:
        why = "; ".join(told(notes)) or "train one there first"
        raise UsageError(f"there is no run in {', '.join(args.runs)}: {why}")
    methods = methods_of(runs, args.metric, notes)
    for line in told(methods.notes):
        print(line, file=sys.stderr)
    contents = _contents(args, methods)
    for name, content in contents.items():
        _write(Path(name), content)
        print(name)
    if not contents:
        print(markdown(methods, args.metric), end="")
    return 0


def _contents(args: argparse.Namespace, methods: Methods) -> dict[str, bytes]:
    """Returns what goes into each file."""
    from rl.plot.figures import figure_of, picture
    from rl.plot.methods import markdown
    from rl.plot.page import page

    endings = {name: Path(name).suffix.lower() for name in args.out}
    contents = {name: _bytes(markdown(methods, args.metric)) for name in endings if endings[name] == ".md"}
    pictures = [name for name in endings if name not in contents]
    if pictures or args.html is not None:
        figure = figure_of(methods, args.metric)
        contents |= {name: picture(figure, endings[name].removeprefix(".")) for name in pictures}
        if args.html is not None:
            contents[args.html] = _bytes(page(methods, figure, args.metric))
    return contents


def _bytes(text: str) -> bytes:
    """Returns a text in UTF-8, of which paths of runs may have none."""
    return text.encode(errors="backslashreplace")


def _write(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all. Raises UsageError where it cannot be written."""
    from rl.storage.files import TEMPORARY, failure, patiently, reason

    temporary = path.with_name(f"{TEMPORARY}{path.name}-{uuid.uuid4().hex[:12]}")
    try:
        patiently(lambda: temporary.write_bytes(content))
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise failure(f"cannot write {path}: {reason(error)}", error) from error


if __name__ == "__main__":
    sys.exit(main())
