"""Judgements of sets as they are written: the tables of results, what was trained, and the report of all.

`learning.py` calls it. Jobs, here, have `hparams`, `seed` and the `folder` of their run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import report
import shared
import trained
import verdicts
from bars import JUDGED
from shared import UsageError

FIELDS = ("hparams", "env", "seed", "steps", "best_step", "last", "best", "episodes", "seconds",
          "train_seconds", "eval_seconds", "first_window_s", "cores", "noisy", "fingerprint", "version",
          "command")  # fmt: skip
CURVE_FIELDS = ("hparams", "seed", "step", "return")


def write_csv(
    path: Path, fields: Sequence[str], rows: list[dict[str, Any]], name: str, kept_seeds: set[int]
) -> None:
    """Puts rows of `name` in place of those that a table holds of it, but for `kept_seeds`."""
    kept = [
        row for row in report.read_table(path) if row["hparams"] != name or int(row["seed"]) in kept_seeds
    ]
    merged = sorted([*kept, *rows], key=lambda row: (row["hparams"], int(row["seed"])))  # stable
    shared.write_table(path, fields, merged)


def write_results(name: str, rows: list[dict[str, Any]], mine: Sequence[Any], folder: Path) -> None:
    """The lines of a set, and the report of all. Other judged seeds stay where they trained the same."""
    folder.mkdir(parents=True, exist_ok=True)
    new = {job.seed for job in mine}
    prints = prints_of(mine)
    before = [row for row in report.read_table(folder / "learning.csv") if row["hparams"] == name]
    if any(other_values(row, folder, prints) for row in before if int(row["seed"]) in JUDGED):
        report.judged_again(folder, name)
    kept = {int(row["seed"]) for row in before if row.get("fingerprint") in prints} - new
    write_csv(folder / "learning.csv", FIELDS, rows, name, kept)
    keep_values(folder, prints)
    points = [
        dict(zip(CURVE_FIELDS, (name, job.seed, step, round(value, 2)), strict=True))
        for job in mine
        for step, value in report.curve(job.folder / "run_0")
    ]
    write_csv(folder / "learning_curves.csv", CURVE_FIELDS, points, name, kept)
    report.write(folder, [name])


def write_confirmed(name: str, rows: list[dict[str, Any]], mine: Sequence[Any], folder: Path) -> None:
    """The lines of a set by the seeds of a second judgement, and the report."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / report.CONFIRMED, FIELDS, rows, name, set())
    keep_values(folder, prints_of(mine))
    report.write(folder, [])


def prints_of(mine: Sequence[Any]) -> dict[str, trained.Values]:
    return {trained.fingerprint(job.hparams): trained.values(job.hparams) for job in mine}


def keep_values(folder: Path, prints: dict[str, trained.Values]) -> None:
    """What was trained, of all lines that there are."""
    tables = [report.read_table(folder / file) for file in ("learning.csv", report.CONFIRMED)]
    trained.write(folder, prints, [row.get("fingerprint") or "" for table in tables for row in table])


def other_values(row: verdicts.Row, folder: Path, prints: dict[str, trained.Values]) -> bool:
    """Whether an earlier row is of other values than those trained now; hparams that came later count with
    their defaults."""
    found = trained.read(folder).get(row.get("fingerprint") or "")
    try:
        return found is None or trained.revived(found) not in prints.values()
    except UsageError:  # of hparams that are no more
        return True
