"""Methods, which are runs that differ in their seeds alone, and the tables that compare them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rl.errors import UsageError, nearest
from rl.report.runs import NOT_LEARNING, RETURN, RunData, flat, metric, table, wall_seconds
from rl.report.statistics import (
    FEW_RUNS,
    IQM_FROM,
    Estimate,
    aggregate,
    estimated,
    interval,
    probability_of_improvement,
)

SHOWN = 3  # values in which methods of one name differ, as their labels have them


class Curve(NamedTuple):
    """A metric of a method at the steps that all its runs have logged."""

    steps: np.ndarray  # [steps]
    estimate: Estimate  # over runs, [steps] each
    seconds: np.ndarray | None  # [steps] mean over runs; None where that was not logged


@dataclasses.dataclass(frozen=True)
class Method:
    """Runs of the same hyperparameters."""

    label: str
    algo: str
    runs: list[RunData]
    values: list[list[tuple[int, float]]]  # of each run: (step, metric)

    @functools.cached_property
    def final(self) -> np.ndarray:
        """Returns the last value of each run, [runs]."""
        return np.array([each[-1][1] for each in self.values])

    @functools.cached_property
    def curve(self) -> Curve | None:
        """Returns its curve; None where its runs have no step in common."""
        points = [dict(each) for each in self.values]
        steps = sorted(set.intersection(*map(set, points)))
        if not steps:
            return None
        found = interval(np.array([[each[step] for step in steps] for each in points]))
        times = [wall_seconds(run.path) for run in self.runs]
        timed = all(step in each for each in times for step in steps)
        seconds = np.mean([[each[step] for step in steps] for each in times], 0) if timed else None
        return Curve(np.array(steps), found, seconds)


Methods = dict[str, list[Method]]  # by environment


def methods_of(runs: Sequence[RunData], name: str = RETURN) -> Methods:
    """Returns the methods by environment, the runs without a value of the metric left out.

    Raises:
        UsageError: none has one.
    """
    groups: dict[str, dict[str, list[RunData]]] = {}
    values = {run.path: metric(run.path, name) for run in runs}
    algos = list(dict.fromkeys(run.hparams.get("algo") for run in runs))  # in one order, of one colour
    runs = sorted(runs, key=lambda run: algos.index(run.hparams.get("algo")))
    for run in runs:
        if values[run.path]:
            groups.setdefault(run.env, {}).setdefault(f"{run.name} {_learned(run)}", []).append(run)
    if not groups:
        known = {each for run in runs for row in table(run.path / "metrics.csv") for each in row}
        hint = nearest(name, known - {"step"}) if known else "they have logged nothing yet"
        raise UsageError(f"none of the {len(runs)} runs has the metric {name}: {hint}")
    return {
        env: [
            Method(label, str(each[0].hparams.get("algo", "")), each, [values[run.path] for run in each])
            for label, each in zip(_labels(list(found.values())), found.values(), strict=True)
        ]
        for env, found in sorted(groups.items())
    }


def markdown(methods: Methods, name: str = RETURN) -> str:
    """Returns the tables of all environments, and where several were given the one over all."""
    lines = [f"# {name}, last of each run", ""]
    for env, found in methods.items():
        lines += [f"## {env}", "", *comparison(found), "", *improvements(found)]
    lines += over_all(methods)
    return "\n".join(lines).rstrip() + "\n"


def comparison(methods: Sequence[Method]) -> list[str]:
    """Returns a line for each method of an environment."""
    lines = ["| method | runs | steps | statistic | value [95 %] | least | greatest | wall s |"]
    lines.append("| --- |" + " ---: |" * 7)
    unlike = False
    for method in methods:
        final, runs = method.final, len(method.runs)
        ends = sorted({each[-1][0] for each in method.values})
        steps = f"{ends[0]:,}" if len(ends) == 1 else f"{ends[0]:,} to {ends[-1]:,}"
        unlike |= len(ends) > 1
        times = [list(wall_seconds(run.path).values()) for run in method.runs]
        wall = f"{np.mean([each[-1] for each in times]):.0f}" if all(times) else "-"
        what = ("IQM" if runs >= IQM_FROM else "mean") if runs > 1 else "one run"
        value = estimated(aggregate, [final]).text(digits(final)) if runs > 1 else _number(final[0])
        cells = [
            method.label,
            runs,
            steps,
            what,
            value,
            _number(final.min()),
            _number(final.max()),
            wall,
        ]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    if unlike:
        lines += ["", "Runs of one method are not equally long: values are of the last step of each."]
    if any(1 < len(method.runs) < IQM_FROM for method in methods):
        lines += ["", FEW_RUNS]
    return lines


def improvements(methods: Sequence[Method]) -> list[str]:
    """Returns the table of probabilities that a run of one method is above one of another."""
    if len(methods) < 2:
        return []
    lines = ["Probability that a run of the row is above one of the column:", ""]
    lines.append("| | " + " | ".join(method.label for method in methods) + " |")
    lines.append("| --- |" + " ---: |" * len(methods))
    for mine in methods:
        cells = [
            "-"
            if mine is other
            else estimated(probability_of_improvement, [mine.final], [other.final]).text(2)
            for other in methods
        ]
        lines.append(f"| {mine.label} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def over_all(methods: Methods) -> list[str]:
    """Returns the table over all environments, for algorithms that have one method in each; empty where there
    are no two."""
    scores = scaled(methods)
    if len(methods) < 2 or len(scores) < 2:
        return []
    names = list(scores)
    lines = [f"## Over {len(methods)} environments", ""]
    lines += ["Scaled to 0 for the least and 1 for the greatest run of an environment.", ""]
    runs = {sum(map(len, scores[name])) for name in names}
    what = " or ".join(sorted({"IQM" if count >= IQM_FROM else "mean" for count in runs}))
    lines += [f"| algorithm | {what} [95 %] | probability of being above {names[0]} |"]
    lines += ["| --- | ---: | ---: |"]
    for name in names:
        likely = "-"
        if name != names[0]:
            likely = estimated(probability_of_improvement, scores[name], scores[names[0]]).text(2)
        lines.append(f"| {name} | {estimated(aggregate, scores[name]).text(2)} | {likely} |")
    return lines


def scaled(methods: Methods) -> dict[str, list[np.ndarray]]:
    """Returns algorithm -> scores of each environment, between the least and the greatest run there; of those
    that have one method in each environment."""
    algos = [[method.algo for method in found] for found in methods.values()]
    common = [algo for algo in dict.fromkeys(algos[0]) if all(each.count(algo) == 1 for each in algos)]
    scores: dict[str, list[np.ndarray]] = {algo: [] for algo in common}
    for found in methods.values():
        every = np.concatenate([method.final for method in found])
        low, span = every.min(), max(every.max() - every.min(), 1e-12)
        for method in found:
            if method.algo in scores:
                scores[method.algo].append((method.final - low) / span)
    return scores


def digits(values: np.ndarray) -> int:
    """Returns how many decimals values of this size are told with."""
    return 1 if np.abs(values).max() >= 10.0 else 3


def _number(value: Any) -> str:
    return f"{value:.{digits(np.array([value]))}f}"


def _labels(groups: Sequence[Sequence[RunData]]) -> list[str]:
    """Returns what methods are called: their set, and where several have it, in what they differ."""
    names = [group[0].name for group in groups]
    flats = [_learned(group[0]) for group in groups]
    labels = []
    for name, values in zip(names, flats, strict=True):
        same = [other for other, theirs in zip(flats, names, strict=True) if theirs == name]
        differing = [key for key in values if any(other.get(key) != values[key] for other in same)]
        shown = ", ".join(f"{key}={_short(values[key])}" for key in differing[:SHOWN])
        more = ", ..." if len(differing) > SHOWN else ""
        labels.append(f"{name} ({shown}{more})" if differing else name)
    return labels


def _learned(run: RunData) -> dict[str, Any]:
    """Returns what learning depends on: hyperparameters, dotted, and whether others played for it."""
    found = {key: value for key, value in flat(run.hparams) if key not in NOT_LEARNING}
    return {"workers": run.workers, **found}


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
