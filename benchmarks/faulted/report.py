"""The table of the campaign: kinds by outcomes."""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from datetime import date
from pathlib import Path

import shared

from faulted.cases import KINDS, OUTCOMES
from faulted.runs import ROOT

Row = dict[str, str]
FIELDS = ("kind", "number", "seed", "outcome", "codes", "seconds", "commit", "date", "detail")
HEAD = """# Faults

{done} faults of {kinds} kinds were done to small runs, {failed}; moments and places by seeds {seeds}. Made by

    {command}

on {machine}, {days}; commits {commits}. The rows are in `torture.csv`, what is done and how it is judged
in `benchmarks/faulted`.

After each fault the same command is given again until it ends. It is to end with all steps made, in-graph
with the weights (and, where `metrics.csv` was not damaged, the rows) of a run that nobody disturbed, to the
bit; never from an older checkpoint than the newest whole one; or in one line with its exit code. No process
may be left, no traceback be printed.

{columns}

"""


def commit() -> str:
    """The checkout's commit, marked where files differ from it."""
    words = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=10", "--dirty", "--exclude=*"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def written(rows: list[Row], path: Path, command: str) -> None:
    """Writes the report of all rows."""
    struck = [row for row in rows if row["outcome"] not in ("missed", "skipped")]
    failed = [row for row in struck if row["outcome"] == "failed"]
    days = sorted({row["date"] for row in rows} or {str(date.today())})
    head = HEAD.format(
        done=len(struck),
        kinds=len({row["kind"] for row in struck}),
        failed=f"of which {len(failed)} failed" if failed else "none of which failed",
        seeds=", ".join(map(str, sorted({int(row["seed"]) for row in rows}))),
        command=command,
        machine=f"{os.cpu_count()} cores, {platform.system()}, CPython {platform.python_version()}",
        days=days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}",
        commits=", ".join(dict.fromkeys(row["commit"] for row in rows)),
        columns="\n".join(f"* **{name}**: {what}" for name, what in OUTCOMES.items()),
    )
    shared.write(path, head + table(rows) + details(rows))


def table(rows: list[Row]) -> str:
    """Kinds by outcomes."""
    names = [each for each in OUTCOMES if any(row["outcome"] == each for row in rows)]
    lines = ["| kind | what is done | faults | " + " | ".join(names) + " |"]
    lines.append("|---|---|" + "---:|" * (len(names) + 1))
    total: Counter[str] = Counter()
    for name, each in KINDS.items():
        count = Counter(row["outcome"] for row in rows if row["kind"] == name)
        if count:
            total += count
            lines.append(_line(f"`{name}`", each.what, count, names))
    lines.append(_line("all", "", total, names))
    return "\n".join(lines) + "\n"


def _line(name: str, what: str, count: Counter[str], names: list[str]) -> str:
    cells = [str(count[each] or "") for each in names]
    return f"| {name} | {what} | {_faults(count)} | " + " | ".join(cells) + " |"


def _faults(count: Counter[str]) -> int:
    return sum(count.values()) - count["missed"] - count["skipped"]


def details(rows: list[Row]) -> str:
    """What failed, and what was skipped, in a line each."""
    text = ""
    for outcome, title in (("failed", "Failed"), ("skipped", "Skipped")):
        found = [row for row in rows if row["outcome"] == outcome]
        if found:
            lines = [f"* `{row['kind']}` {row['number']}: {row['detail']}" for row in found]
            text += f"\n## {title}\n\n" + "\n".join(lines) + "\n"
    return text
