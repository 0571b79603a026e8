"""Which of the runs that are found count, and notes of what statistics are without.

A run that vanishes without a word makes a method look better than it is; one that counts twice makes its
interval too narrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from rl.errors import Unavailable, UsageError
from rl.report.runs import RunData, is_policy_alone, readable_runs, series, table, wall_seconds

UNREADABLE = "left out, unreadable"
_SHOWN = 20  # runs that a note names


class Note(NamedTuple):
    """What statistics are without."""

    about: str  # such as "left out, without eval/return_mean"
    what: str  # a run's path, or why it cannot be read
    env: str = ""  # of the run; empty where that is not known


class Logged(NamedTuple):
    """A run and what it has logged."""

    run: RunData
    values: list[tuple[int, float]]  # (step, metric)
    rows: list[int]  # of metrics.csv: a hash of each
    seconds: dict[int, float]  # step -> wall time


def told(notes: Iterable[Note]) -> list[str]:
    """Returns notes as text, a line for all runs of which the same is to be said."""
    found: dict[str, dict[str, None]] = {}
    for note in notes:
        found.setdefault(note.about, {})[note.what] = None
    return [f"{about}: {_listed(list(each))}" for about, each in found.items()]


def found_runs(places: Sequence[str]) -> tuple[list[RunData], list[Note]]:
    """Returns the runs in and below folders, each once, and notes of those that do not count: unreadable
    ones, and policies that were published from a run, unless they are themselves what is named.

    Raises:
        Unavailable: one cannot be read now, and may be later.
    """
    runs: dict[Path, RunData] = {}
    policies: dict[Path, RunData] = {}
    notes: list[Note] = []
    for place in map(Path, places):
        readable, unread = readable_runs(place)
        notes += [Note(UNREADABLE, str(error)) for error in unread]
        for run in readable:
            alone = run.path != place and is_policy_alone(run.path)
            (policies if alone else runs).setdefault(run.path.resolve(), run)
    about = "left out, a policy published from a run"
    notes += [Note(about, str(run.path), run.env) for path, run in policies.items() if path not in runs]
    return list(runs.values()), notes


def logged(runs: Sequence[RunData], name: str) -> tuple[list[Logged], list[Note], set[str]]:
    """Returns the runs that have a finite value of a metric, notes of the others, and all metrics that they
    have.

    Raises:
        Unavailable: one cannot be read now, and may be later.
    """
    found, notes, known = [], [], set[str]()
    for run in runs:
        try:
            rows = table(run.path / "metrics.csv")
        except Unavailable:
            raise
        except UsageError as error:
            notes.append(Note(UNREADABLE, str(error), run.env))
            continue
        if rows and "step" not in rows[0]:
            what = f"{run.path / 'metrics.csv'} has no column step: is it damaged?"
            notes.append(Note(UNREADABLE, what, run.env))
            continue
        known |= {each for row in rows[:1] for each in row}
        values = series(rows, name)
        if not values:
            notes.append(Note(f"left out, without {name}", str(run.path), run.env))
            continue
        try:
            seconds = wall_seconds(run.path)
        except Unavailable:
            raise
        except UsageError as error:
            notes.append(Note("without wall time", str(error), run.env))
            seconds = {}
        hashes = [hash(tuple(cell for cell in row.items() if cell[1])) for row in rows]
        found.append(Logged(run, values, hashes, seconds))
    return found, notes, known - {"step"}


def without_copies(runs: Sequence[Logged]) -> tuple[list[Logged], list[Note]]:
    """Returns the runs of one method, copies of a run left out, and notes of those. A run is a copy where
    another one of its seed begins with the very rows that it has: a backup may be older than the run."""
    kept: list[Logged] = []
    notes = []
    for each in sorted(runs, key=lambda each: -len(each.rows)):
        rows, seed = each.rows, each.run.seed
        first = next((it for it in kept if it.run.seed == seed and it.rows[: len(rows)] == rows), None)
        if first is None:
            kept.append(each)
        else:
            what = f"{each.run.path} (of {first.run.path})"
            notes.append(Note("left out, a copy of another run", what, each.run.env))
    chosen = {id(each) for each in kept}
    return [each for each in runs if id(each) in chosen], notes


def _listed(names: Sequence[str]) -> str:
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join([*names[:_SHOWN], *more])
