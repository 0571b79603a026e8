"""Methods, which are runs that differ in their seeds alone, and the tables that compare them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rl.errors import UsageError, nearest
from rl.plot.counted import UNREADABLE, Logged, Note, logged, told, without_copies
from rl.plot.labels import identity, labels
from rl.report.runs import RETURN, RunData
from rl.report.statistics import (
    FEW_RUNS,
    IQM_FROM,
    Estimate,
    aggregate,
    estimated,
    interval,
    probability_of_improvement,
)

_DECIMALS = 12  # at most


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
    seconds: list[dict[int, float]]  # of each run: step -> wall time

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
        timed = all(step in each for each in self.seconds for step in steps)
        seconds = np.mean([[each[step] for step in steps] for each in self.seconds], 0) if timed else None
        return Curve(np.array(steps), found, seconds)


class Methods(dict[str, list[Method]]):
    """The methods by environment.

    Attributes:
        notes: what they are without.
    """

    def __init__(self, found: Mapping[str, list[Method]], notes: Sequence[Note] = ()):
        super().__init__(found)
        self.notes = list(notes)


def methods_of(runs: Sequence[RunData], name: str = RETURN, notes: Sequence[Note] = ()) -> Methods:
    """Returns the methods by environment, each run once. Runs without a value of the metric are left out,
    which is noted behind the notes given.

    Raises:
        UsageError: none has one.
        Unavailable: one cannot be read now, and may be later.
    """
    algos = list(dict.fromkeys(run.hparams.get("algo") for run in runs))  # in one order, of one colour
    runs = sorted(runs, key=lambda run: algos.index(run.hparams.get("algo")))
    found, left_out, known = logged(runs, name)
    if not found:
        if name in known or (known and name == RETURN):  # no column before the first evaluation
            what = f"none of the {len(runs)} runs has a value of {name} yet"
            raise UsageError(f"{what}: wait until one is logged, or name another --metric")
        unread = told(note for note in left_out if note.about == UNREADABLE)
        hint = nearest(name, known) if known else "; ".join(unread) or "they have logged nothing yet"
        raise UsageError(f"none of the {len(runs)} runs has the metric {name}: {hint}")
    notes = [*notes, *left_out]
    groups: dict[str, dict[str, list[Logged]]] = {}
    for each in found:
        groups.setdefault(each.run.env, {}).setdefault(identity(each.run), []).append(each)
    methods: dict[str, list[Method]] = {}
    for env, here in sorted(groups.items()):
        for label, group in zip(labels([same[0].run for same in here.values()]), here.values(), strict=True):
            kept, copies = without_copies(group)
            notes += copies
            methods.setdefault(env, []).append(_method(label, kept))
    return Methods(methods, notes)


def _method(label: str, group: Sequence[Logged]) -> Method:
    algo = str(group[0].run.hparams.get("algo", ""))
    values, seconds = [each.values for each in group], [each.seconds for each in group]
    return Method(label, algo, [each.run for each in group], values, seconds)


def markdown(methods: Methods, name: str = RETURN) -> str:
    """Returns the tables of all environments, and where several were given the one over all."""
    text = [f"# {name}, last of each run", ""]
    text += _paragraphs(note for note in methods.notes if note.env not in methods)
    for env, found in methods.items():
        text += [f"## {env}", "", *comparison(found), ""]
        text += _paragraphs(note for note in methods.notes if note.env == env)
        text += improvements(found)
    text += over_all(methods)
    return "\n".join(text).rstrip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")  # else a table takes it for the end of a cell


def _paragraphs(notes: Iterable[Note]) -> list[str]:
    return [each for line in told(notes) for each in (line, "")]


def comparison(methods: Sequence[Method]) -> list[str]:
    """Returns a line for each method of an environment."""
    lines = [f"| method | runs | {units(methods)} | statistic | value [95 %] | least | greatest | wall s |"]
    lines.append("| --- |" + " ---: |" * 7)
    unlike = False
    for method in methods:
        final, runs = method.final, len(method.runs)
        ends = sorted({each[-1][0] for each in method.values})
        steps = f"{ends[0]:,}" if len(ends) == 1 else f"{ends[0]:,} to {ends[-1]:,}"
        unlike |= len(ends) > 1
        times = [list(each.values()) for each in method.seconds]
        wall = f"{np.mean([each[-1] for each in times]):.0f}" if all(times) else "-"
        what = ("IQM" if runs >= IQM_FROM else "mean") if runs > 1 else "one run"
        value = estimated(aggregate, [final]).text(digits(final)) if runs > 1 else number(final[0])
        cells = [
            _cell(method.label),
            runs,
            steps,
            what,
            value,
            number(final.min()),
            number(final.max()),
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
    lines.append("| | " + " | ".join(_cell(method.label) for method in methods) + " |")
    lines.append("| --- |" + " ---: |" * len(methods))
    for mine in methods:
        cells = [
            "-"
            if mine is other
            else estimated(probability_of_improvement, [mine.final], [other.final]).text(2)
            for other in methods
        ]
        lines.append(f"| {_cell(mine.label)} | " + " | ".join(cells) + " |")
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


def units(methods: Sequence[Method]) -> str:
    """Returns what their steps are: "steps" of the environment, "updates", or both."""
    return " or ".join(dict.fromkeys(run.unit for method in methods for run in method.runs))


def digits(values: np.ndarray) -> int:
    """Returns how many decimals values of this size are told with: small ones with three digits."""
    size = np.abs(values).max()
    if size >= 10.0:
        return 1
    return 3 if size >= 0.1 or size == 0.0 else min(2 - math.floor(math.log10(size)), _DECIMALS)


def number(value: float) -> str:
    """Returns a value as tables have it."""
    return f"{value:.{digits(np.array([value]))}f}"
