"""What a run's folder tells of it, read without TensorFlow, also while it is written."""

from __future__ import annotations

import csv
from pathlib import Path

RETURN = "eval/return_mean"


def table(path: Path) -> list[dict[str, str]]:
    """Returns the rows of a table such as metrics.csv; none where it is not there. A last line that is not
    whole is left out."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return [row for row in csv.DictReader(file) if None not in row.values()]
    except FileNotFoundError:
        return []


def evaluations(run_dir: Path) -> list[tuple[int, float]]:
    """Returns (step, mean return) of the evaluations during training."""
    found = [(row["step"], row.get(RETURN)) for row in table(run_dir / "metrics.csv")]
    return [(int(step), float(value)) for step, value in found if value]
