"""What rows of learning.csv say of a set: whether it reaches its bar, what is to be said against them, and
its line of the report."""

from __future__ import annotations

from typing import Any

import numpy as np
import trained
from bars import FRESH, JUDGED, bar_of

from rl.report.statistics import interval

ROUNDING = 1e-9  # of a mean of returns that have one decimal

Row = dict[str, Any]


def bar_text(name: str) -> str:
    bar = bar_of(name)
    if bar is None:
        return "-"
    limits = [f">= {bar.mean_return:g}"]
    limits += [f"within {bar.steps:,} steps"] if bar.steps else []
    limits += [f"{bar.seconds:g} s"] if bar.seconds else []
    return f"{', '.join(limits)} ({bar.source})"


def lasts(rows: list[Row]) -> list[float]:
    """The mean return of each seed's last checkpoint."""
    return [float(row["last"]) for row in rows]


def verdict(name: str, rows: list[Row]) -> str:
    """Pass, or what is missing and by how much; - for a set without a bar.

    The plain mean over seeds of their last checkpoints decides; the slowest seed's steps and seconds count.
    Iterations are whole, so that runs end a little after their train_steps: half a percent is let pass.
    """
    bar = bar_of(name)
    if bar is None:
        return "-"
    wrong = []
    last = lasts(rows)
    short = bar.mean_return - sum(last) / len(last)
    if short > ROUNDING:
        wrong.append(f"return by {short:.2g}" if short < 1.0 else f"return by {short:.1f}")
    made = max(int(row["steps"]) for row in rows)
    if bar.steps is not None and made > 1.005 * bar.steps:
        wrong.append(f"steps by {made - bar.steps:,}")
    late = max(float(row["seconds"]) for row in rows) - (bar.seconds or np.inf)
    if late > 0.0:
        wrong.append(f"time by {late:.1f} s")
    if wrong:
        return "**miss**: " + ", ".join(wrong)
    low = sum(value < bar.mean_return for value in last)
    return f"pass ({low} of {len(rows)} seeds below)" if low else "pass"


def marks(rows: list[Row], known: dict[str, trained.Values]) -> list[str]:
    """What is to be said against the rows of a set, whatever they reached."""
    if any(int(row["seed"]) not in (*JUDGED, *FRESH) for row in rows):
        found = ["judged on tuning seeds"]
        rows = [row for row in rows if row.get("fingerprint")]  # none where nothing more is known
    else:
        found = []
    reasons = sorted({trained.stale(row, known) for row in rows} - {""})
    return [*found, *(f"stale: {reason}" for reason in reasons)]


def core_count(rows: list[Row]) -> str:
    """How many cores the runs of a set had, in words."""
    count = int(rows[0]["cores"])
    return "1 core" if count == 1 else f"{count} cores"


def wall_seconds(row: Row) -> float:
    """Of a run: training, its evaluations and compilation."""
    return float(row["seconds"]) + float(row["first_window_s"])


def busy(rows: list[Row]) -> bool:
    """Whether one of the runs had to share the machine."""
    return any(str(row["noisy"]) == "True" for row in rows)


def line(name: str, rows: list[Row], known: dict[str, trained.Values]) -> list[str]:
    """The cells of one set."""
    last, best = ([float(row[which]) for row in rows] for which in ("last", "best"))
    middle, lower, upper = interval(np.array(last))
    steps = f"{max(int(row['steps']) for row in rows):,}"
    digits = 2 if max(map(abs, last)) < 10.0 else 1  # of games and goals a tenth says too little
    by_seed = ", ".join(f"{value:.{digits}f}" for value in last)
    between = f"{middle:.{digits}f} [{lower:.{digits}f}, {upper:.{digits}f}]"
    reached = ", ".join(f"{int(row['best_step']):,}" for row in rows)
    chosen = f"{np.mean(best):.{digits}f} at {reached}"
    wall = ", ".join(f"{wall_seconds(row):.0f}" for row in rows)
    wall += f" ({core_count(rows)})" + (" busy" if busy(rows) else "")
    result = "; ".join([verdict(name, rows), *(f"**{mark}**" for mark in marks(rows, known))])
    counts = [str(len(rows)), steps, bar_text(name)]
    return [f"`{name}`", *counts, by_seed, f"{np.mean(last):.{digits}f}", between, chosen, wall, result]


HEADER = ["set", "seeds", "steps", "bar", "last checkpoint, by seed", "mean", "IQM [95 %]",
          "best checkpoint: mean, at step", "wall s, by seed", "result"]  # fmt: skip
