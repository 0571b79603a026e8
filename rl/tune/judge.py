"""The judgement: compares a search's winner with the set that it began from, on seeds that selected
neither."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rl.errors import AGAIN, GivenUp, UsageError
from rl.plot.methods import digits, number
from rl.report.progress import say
from rl.report.statistics import (
    FEW_RUNS,
    IQM_FROM,
    Estimate,
    aggregate,
    estimated,
    probability_of_improvement,
)
from rl.signals import StopRequest
from rl.tune.runs import PATIENCE, POLL, TRIES, Command, Process, again, final, finish, outcome


class Side(NamedTuple):
    """A set to be judged: its runs, one for each seed."""

    name: str
    commands: Sequence[Command]  # each of run_0 in a folder of its own
    train_steps: int

    def returns(self) -> list[float | None]:
        """Returns the last evaluation of each run, None where it is not finished."""
        return [final(command.folder / "run_0", self.train_steps) for command in self.commands]


class Judged(NamedTuple):
    """The results of both sides."""

    returns: Mapping[str, Sequence[float]]  # by name of the side, one for each seed
    estimates: Mapping[str, Estimate]
    improvement: Estimate  # how likely a run of the second is above one of the first

    def lines(self, seeds: range) -> list[str]:
        """Returns the report as lines of Markdown."""
        statistic = "interquartile mean" if len(seeds) >= IQM_FROM else "mean"
        found = [f"| set | {statistic} [95 %] | by seed, {seeds[0]} to {seeds[-1]} |", "| --- | --- | --- |"]
        places = digits(np.array(list(self.returns.values())))  # the same for both, which are compared
        for name, values in self.returns.items():  # the set's, the winner's
            by_seed = ", ".join(f"{value:.{places}f}" for value in values)
            found.append(f"| `{name}` | {self.estimates[name].text(places)} | {by_seed} |")
        first, second = self.returns
        likely = self.improvement.text(2)
        found += ["", f"A run of `{second}` is above one of `{first}` with probability {likely}."]
        return found + ([] if len(seeds) >= IQM_FROM else [FEW_RUNS])


def judge(
    sides: Sequence[Side],
    places: list[list[int]],
    start: Callable[[Command, list[int]], Process],
    stop: StopRequest,
    say: Callable[[str], None] = say,
) -> Judged | None:
    """Trains the runs that are not finished, as many in parallel as there are places; returns the comparison
    of the two sides, None if `stop` was requested.

    Raises:
        UsageError: a run fails.
    """
    waiting = [
        (number, copy)
        for number, side in enumerate(sides)
        for copy, value in enumerate(side.returns())
        if value is None  # else of an earlier command
    ]
    lost = dict.fromkeys(waiting, 0)
    busy: dict[int, tuple[tuple[int, int], Process]] = {}  # by place: the run, and its process
    try:
        while (waiting or busy) and not stop.requested:
            for i, cores in enumerate(places):
                if i not in busy and waiting:
                    run = waiting.pop(0)
                    busy[i] = run, start(sides[run[0]].commands[run[1]], cores)
            time.sleep(POLL)
            for i, (run, process) in list(busy.items()):
                code = process.poll()
                if code is None:
                    continue
                del busy[i]
                side, copy = sides[run[0]], run[1]
                folder = side.commands[copy].folder
                ended = outcome(code, False, folder)
                lost[run] += 1
                if ended.kind == "again" and lost[run] < TRIES:
                    waiting.insert(0, run)
                    continue
                if code == AGAIN:
                    raise again(f"{side.name}, {folder.name}", ended)
                if ended.kind == "nan":
                    raise GivenUp(f"{side.name}, {folder.name}: {ended.said}")
                value = side.returns()[copy]
                if ended.kind != "done" or value is None:
                    raise UsageError(
                        f"{side.name}, {folder.name}: {ended.said or 'it came to no evaluation'}"
                    )
                say(f"{side.name}, {folder.name}: {number(value)}")
    finally:
        for _, process in busy.values():
            process.stop()
        for _, process in busy.values():
            finish(process, PATIENCE)
    return None if stop.requested else compared({side.name: side.returns() for side in sides})


def compared(returns: Mapping[str, Sequence[float | None]]) -> Judged:
    """Returns the comparison of two sides whose runs are all finished."""
    values = {name: [float(value or 0.0) for value in each] for name, each in returns.items()}
    scores = {name: [np.array(each)] for name, each in values.items()}
    first, second = scores.values()
    return Judged(
        values,
        {name: estimated(aggregate, each) for name, each in scores.items()},
        estimated(probability_of_improvement, second, first),
    )


def commands(words: Sequence[str], seeds: range, folder: Path) -> list[Command]:
    """Returns the commands of a side, one for each seed, each in its own `folder/seed_N`, so that runs of
    other seeds that were judged before are not taken for them."""
    return [Command((*words, "--seed", str(seed)), folder / f"seed_{seed}") for seed in seeds]
