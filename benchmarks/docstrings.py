"""Writes what was measured of each set into its docstring in rl/hparams, from results/learning.csv.

    python benchmarks/docstrings.py

A set's docstring is where its reader looks for the command, the score and the time; `make test` compares
them with the table.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from report import RESULTS, Row, busy, core_count, read_table, wall_seconds  # noqa: E402

SETS = ROOT / "rl" / "hparams"
COMMAND = "`python train.py --hparams "
WIDTH = 110


def rows_by_set(table: Path = RESULTS / "learning.csv") -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in read_table(table):
        found.setdefault(row["hparams"], []).append(row)
    return found


def measured(name: str, rows: list[Row]) -> str:
    """Command, mean return of the last checkpoints, steps, median seconds, of the rows of a set."""
    score = statistics.mean(float(row["last"]) for row in rows)
    seconds = statistics.median(wall_seconds(row) for row in rows)
    steps = round(max(int(row["steps"]) for row in rows), -3)
    seeds = f"{len(rows)} seed{'s' if len(rows) > 1 else ''}"
    shorter = re.search(r" --train_steps \d+", rows[0]["command"])  # than the set's own
    return (
        f"{COMMAND}{name}{shorter[0] if shorter else ''}`: {score:.0f} after {steps:,} steps, "
        f"in {seconds:.0f} s "
        f"({seeds}, {core_count(rows)}{', busy' if busy(rows) else ''})."
    )


def updated(source: str, results: dict[str, list[Row]]) -> str:
    """A file of sets with the docstrings of those that have results brought up to date."""
    lines = source.splitlines(keepends=True)
    functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
    for function in reversed(functions):  # so that line numbers stay true
        text = ast.get_docstring(function)
        if text is None or function.name not in results:
            continue
        first, *others = text.split("\n\n")
        others = [each for each in others if not each.startswith(COMMAND)]
        said = textwrap.wrap(measured(function.name, results[function.name]), WIDTH - 4)
        paragraphs = [first, "\n".join(said), *others]
        new = textwrap.indent('"""' + "\n\n".join(paragraphs) + '\n"""\n', "    ")
        node = function.body[0]
        lines[node.lineno - 1 : node.end_lineno] = [new]
    return "".join(lines)


def main() -> int:
    results = rows_by_set()
    for path in sorted(SETS.glob("*.py")):
        before = path.read_text()
        after = updated(before, results)
        if after != before:
            path.write_text(after)
            print(path.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
