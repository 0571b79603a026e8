"""The report of the learning results: results/README.md and results/learning_SET.png, from the CSV files.

    python benchmarks/report.py      # after a change of a set, of the bars, or of this file; trains nothing

`learning.py` calls it after every set. Intervals are 95 % percentile bootstraps over seeds, of the
interquartile mean from 5 seeds on, of the mean below that (rl/report/statistics.py). What the sets came to
goes into the package too, in a line for each: rl/hparams/measured.csv.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import shared
import trained
from bars import BARS, DATA, FRESH, JUDGED, SOURCES, TRIED, WITH_WORKERS, bar_of
from shared import RESULTS, ROOT, UsageError, read_table
from verdicts import HEADER, Row, lasts, line, marks, verdict

from rl.plot.figures import draw_curve
from rl.report.runs import evaluations
from rl.report.statistics import IQM_FROM, interval

MEASURED = ROOT / "rl" / "hparams" / "measured.csv"  # of the package: `train.py --suggest` reads it
CHEETAH, STEP = "sac_halfcheetah", 20_000  # the set beside Stable-Baselines3's SAC; steps between lines
PEER_LR = 3e-4  # peers/sb3_sac_learning.py
JUDGEMENTS = "judgements.csv"  # of sets that were judged more than once: with how many different values
CONFIRMED = "confirmed.csv"  # lines as those of learning.csv, of seeds that took part in no choice

Curves = dict[str, dict[int, dict[int, float]]]  # set -> seed -> step -> mean return


def read_curves(folder: Path) -> Curves:
    """Evaluations during training."""
    curves: Curves = {}
    for row in read_table(folder / "learning_curves.csv"):
        seed = curves.setdefault(row["hparams"], {}).setdefault(int(row["seed"]), {})
        seed[int(row["step"])] = float(row["return"])
    return curves


def times(run_dir: Path) -> dict[str, float]:
    """Wall time by perf.csv, in seconds: of training without the first window, and of evaluations.

    The first window is where compilation happens. Where a run was interrupted and continued, the window
    after that compiled again and counts in full.
    """
    training, evaluation, first = 0.0, 0.0, 0.0
    before = 0.0
    for i, row in enumerate(read_table(run_dir / "perf.csv")):
        step = float(row["step"])
        seconds = (step - before) / float(row["perf/steps_per_second"])
        before = step
        if i:
            training += seconds
        else:
            first = seconds
        evaluation += float(row.get("perf/eval_seconds") or 0.0)
    return {
        "seconds": round(training + evaluation, 1),
        "train_seconds": round(training, 1),
        "eval_seconds": round(evaluation, 1),
        "first_window_s": round(first, 1),
    }


def curve(run_dir: Path) -> list[tuple[int, float]]:
    """(step, mean return) of the evaluations during training."""
    return evaluations(run_dir)


def up_to_date(name: str, folder: Path) -> bool:
    """Whether a set has been judged as it is now, on the seeds for it."""
    rows = [row for row in read_table(folder / "learning.csv") if row["hparams"] == name]
    return bool(rows) and not marks(rows, trained.read(folder))


def summary(groups: dict[str, list[Row]], known: dict[str, trained.Values]) -> str:
    """How many sets were judged, how many of them miss or say little, and which were not."""
    judged = {name: rows for name, rows in groups.items() if bar_of(name)}
    missing = sum("miss" in verdict(name, rows) for name, rows in judged.items())
    marked = sum(bool(marks(rows, known)) for rows in judged.values())
    of = max(len(judged), 1)
    text = (
        f"{len(judged)} sets judged, {missing} miss ({missing / of:.0%}), "
        f"{marked} stale or judged on tuning seeds ({marked / of:.0%})."
    )
    without = sorted(set(BARS) - {WITH_WORKERS.sub("", name) for name in judged})
    if without:
        more = f"{len(without)} more {'set has' if len(without) == 1 else 'sets have'} a bar and no result"
        text += f"\n\n{more}: {', '.join(f'`{name}`' for name in without)}."
    return text


def markdown(rows: list[Row], folder: Path) -> str:
    """The report of all sets."""
    known = trained.read(folder)
    by_env: dict[str, dict[str, list[Row]]] = {}
    for row in rows:
        by_env.setdefault(row["env"], {}).setdefault(row["hparams"], []).append(row)
    every = {name: group for groups in by_env.values() for name, group in groups.items()}
    lines = ["# Results", "", summary(every, known), "", NOTES]
    lines += [f"* {key}: {what}" for key, what in SOURCES.items()]
    lines += tried(every)
    lines += again(folder, known)
    for env in sorted(by_env):
        lines += ["", f"## {env}", "", "| " + " | ".join(HEADER) + " |", "|" + " --- |" * len(HEADER)]
        lines += ["| " + " | ".join(line(name, group, known)) + " |" for name, group in by_env[env].items()]
        pictures = [name for name in by_env[env] if (folder / f"learning_{name}.png").exists()]
        lines += [""] if pictures else []
        lines += [f"![{name}](learning_{name}.png)" for name in pictures]
    lines += cheetah(folder, every.get(CHEETAH, []), known)
    lines += ["", "## Commands", ""]
    for groups in (by_env[env] for env in sorted(by_env)):
        lines += [f"    {command(group)}" for group in groups.values()]
    return "\n".join(lines) + "\n"


def tried(judged: dict[str, list[Row]]) -> list[str]:
    """What was tried where sets miss their bar."""
    lines = []
    for name, rows in judged.items():
        _, miss, short = verdict(name, rows).partition("**miss**: ")
        if miss:
            lines.append(f"* `{name}` ({short}): {TRIED.get(name, 'nothing yet')}.")
    return ["", "Sets that miss their bar, and what was tried:", "", *lines] if lines else []


def again(folder: Path, known: dict[str, trained.Values]) -> list[str]:
    """Which sets were judged with several values one after the other, as learning.py has counted, and what
    they came to with seeds that took part in none of it."""
    rows = read_table(folder / JUDGEMENTS)
    if not rows:
        return []
    sets = ", ".join(f"`{row['hparams']}` ({row['judgements']})" for row in rows)
    lines = [
        "",
        f"Judged more than once by the same seeds, in brackets with how many different values: {sets}.",
    ]
    groups: dict[str, list[Row]] = {}
    for row in read_table(folder / CONFIRMED):
        groups.setdefault(row["hparams"], []).append(row)
    if not groups:
        return lines
    seeds = f"seeds {FRESH[0]} to {FRESH[-1]}"
    missed = [name for name, group in groups.items() if "miss" in verdict(name, group)]
    near = sum(interval(np.array(lasts(groups[name])))[2] >= bar_of(name).mean_return for name in missed)
    lines += [
        "",
        f"Of these, {len(groups)} were trained once with {seeds} too, which took part in no choice: "
        f"{len(groups) - len(missed)} of {len(groups)} reach their bar, and {near} of the other "
        f"{len(missed)} have it within their interval.",
        "",
        f"## By {seeds}",
        "",
        "| " + " | ".join(HEADER) + " |",
        "|" + " --- |" * len(HEADER),
    ]
    return lines + ["| " + " | ".join(line(name, group, known)) + " |" for name, group in groups.items()]


def judged_again(folder: Path, name: str) -> None:
    """Counts a further judgement of a set, whose values have changed since the one before."""
    counts = {row["hparams"]: int(row["judgements"]) for row in read_table(folder / JUDGEMENTS)}
    counts[name] = counts.get(name, 1) + 1
    rows = [{"hparams": each, "judgements": counts[each]} for each in sorted(counts)]
    shared.write_table(folder / JUDGEMENTS, ("hparams", "judgements"), rows)


NOTES = f"""\
How well it learns: this page. How fast: [speed.md](speed.md). Compilation and memory:
[compile_and_memory.md](compile_and_memory.md). How all of it is measured: [../README.md](../README.md).

Written by `python benchmarks/report.py` from learning.csv, learning_hparams.json and learning_curves.csv, and
from the sets as they are now. Each set was trained as the commands at the end say, which name the commit (of
rows before it was kept, none), without a GPU (`ppo_pong_small` was stopped after 845,000 steps, and resumed
with `train_steps` lowered from 2,500,000). Returns are means of 100 episodes (Pong: 20) on the unmodified
Gymnasium environment, without exploration and undiscounted.

Sets are tuned on seeds 0 to 9 and judged by seeds {JUDGED[0]} to {JUDGED[-1]} (some by the first three, as
the table says); rows of other seeds are marked. But sets that missed were changed, by tuning on 0 to 9 again,
and judged by the same seeds again: so these took part in choosing the values of the sets that are named below
as judged more than once. The last checkpoint decides: a bar is passed where the mean over seeds of their last
checkpoints reaches it, and no run is longer than the bar's steps (half a percent is let pass). The best
checkpoint, chosen by the evaluations of 10 episodes during training and not by the episodes shown, stands
beside it as information. "IQM" is the interquartile mean, with a 95 %
bootstrap interval over seeds; below {IQM_FROM} seeds the mean, with an interval that is little more than the
range from the worst to the best. "Stale" says that the set has other values now than the row was trained
with. Changes of the code it cannot see: for these there is the commit. Sets that learn from others are given
data, and some an expert, of `python benchmarks/make_data.py --output_dir {DATA}` (which learning.py calls
where they are missing), as their commands say; where these play nothing, steps are gradient updates. Wall
time is that of training, its
evaluations and compilation included; "busy" marks sets of which a run had to share the machine. Bars, in
brackets the source:
"""


def command(rows: list[Row]) -> str:
    """The command of all seeds of a set, as a shell's loop, and the commit that was trained."""
    seeds = [int(row["seed"]) for row in rows]
    versions = dict.fromkeys(row["version"] for row in rows if row.get("version"))
    commit = f"  # commit {', '.join(versions)}" if versions else ""
    if len(seeds) == 1:
        return f"{rows[0]['command']}{commit}"
    text = re.sub(r"--seed \d+", "--seed $s", rows[0]["command"])
    text = re.sub(r"seed_[0-9]+", "seed_$s", text)
    return f"for s in {' '.join(map(str, seeds))}; do {text}; done{commit}"


def rates(rows: list[Row], known: dict[str, trained.Values]) -> str:
    """The learning rates of our SAC and theirs."""
    theirs = f"a learning rate of {PEER_LR:g} throughout"
    values = [known[row["fingerprint"]] for row in rows if row.get("fingerprint") in known]
    if not values:
        return f"Theirs has its defaults, {theirs}; with which ours was trained was not kept."
    lr = values[0]["lr"]
    ours = {"actor": lr, "critics": values[0]["critic_lr"] or lr}
    ours["temperature"] = values[0]["temperature_lr"] or lr
    if set(ours.values()) == {PEER_LR}:
        return f"Both have {theirs}."
    words = ", ".join(f"{rate:g} for the {what}" for what, rate in ours.items())
    return f"Theirs has its defaults, {theirs}; ours has {words}."


def cheetah(folder: Path, rows: list[Row], known: dict[str, trained.Values]) -> list[str]:
    """SAC on HalfCheetah-v5 beside Stable-Baselines3's, at equal steps; nothing unless both have been run.

    Args:
        folder: of the results.
        rows: lines of our set.
        known: what was trained.
    """
    ours = read_curves(folder).get(CHEETAH, {})
    theirs: dict[int, dict[int, tuple[float, float]]] = {}
    for path in sorted((folder / "sb3_sac_halfcheetah").glob("seed_*.csv")):
        with path.open(newline="") as file:
            cells = [[float(cell) for cell in row] for row in csv.reader(file)]
        theirs[int(path.stem.removeprefix("seed_"))] = {int(row[0]): (row[1], row[2]) for row in cells}
    if not ours or not theirs:
        return []
    last = min(max(points) for points in (*ours.values(), *theirs.values()))
    lines = ["", "## SAC on HalfCheetah-v5 beside Stable-Baselines3", ""]
    seeds = f"{len(ours)} and {len(theirs)} seeds, means of 10 deterministic episodes."
    said = "".join(f" **Ours: {mark}.**" for mark in marks(rows, known))
    lines += [
        f"{seeds} {rates(rows, known)} Where a step of theirs is none of ours, ours is the evaluation before "
        f"it.{said}",
        "",
    ]
    lines += ["| step | this project | by seed | Stable-Baselines3 | by seed |", "|" + " --- |" * 5]
    result = ""
    for step in range(STEP, last + 1, STEP):
        mine = [
            points[max(at for at in points if at <= step)] for points in ours.values() if min(points) <= step
        ]
        other = [points[step][0] for points in theirs.values() if step in points]
        if not mine or not other:
            continue
        shown = []
        for values in (mine, other):
            middle, lower, upper = interval(np.array(values))
            shown += [f"{middle:.0f} [{lower:.0f}, {upper:.0f}]", ", ".join(f"{each:.0f}" for each in values)]
        lines.append(f"| {step:,} | {' | '.join(shown)} |")
        ahead = float(np.mean(mine) - np.mean(other))
        result = f"After {step:,} steps ours is {abs(ahead):.0f} {'above' if ahead >= 0 else 'BELOW'} theirs."
    return [*lines, "", result]


def plot(name: str, folder: Path, curves: dict[int, dict[int, float]]) -> None:
    """The statistic over seeds and its 95 % interval, at the steps at which all seeds were evaluated."""
    from matplotlib.figure import Figure

    steps = sorted(set.intersection(*(set(each) for each in curves.values())))
    found = interval(np.array([[each[step] for step in steps] for each in curves.values()]))
    figure = Figure(figsize=(4.8, 3.2), layout="constrained")
    axes = figure.add_subplot()
    draw_curve(axes, steps, found)
    bar = bar_of(name)
    if bar is not None:
        axes.axhline(bar.mean_return, color="gray", linestyle="--", linewidth=1)
    axes.set(xlabel="environment steps", ylabel="evaluation return", title=f"{name}, {len(curves)} seeds")
    axes.grid(alpha=0.3)
    figure.savefig(folder / f"learning_{name}.png", dpi=80)


def write(folder: Path, names: Sequence[str] | None = None) -> None:
    """The report, and the curves of `names` (default: of all sets that have one)."""
    curves = read_curves(folder)
    try:
        for name in curves if names is None else names:
            plot(name, folder, curves[name])
    except ModuleNotFoundError as error:
        print(f"no learning curves: {error.name} is missing, ./setup.sh --extra bench")
    rows = read_table(folder / "learning.csv")
    shared.write(folder / "README.md", markdown(rows, folder))
    if folder == RESULTS:
        shared.write(MEASURED, measured(rows, folder))


def measured(rows: list[Row], folder: Path) -> str:
    """What each set came to, as rl/hparams/measured.csv has it: with workers where it was not measured
    without."""
    known, lines = trained.read(folder), ["hparams,env,seeds,mean_return,steps,judged,workers"]
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        found = WITH_WORKERS.search(row["hparams"])
        key = WITH_WORKERS.sub("", row["hparams"]), int(found[1]) if found else 0
        groups.setdefault(key, []).append(row)
    for (name, workers), group in sorted(groups.items()):
        if workers and (name, 0) in groups:
            continue
        mean, steps = np.mean([float(row["last"]) for row in group]), max(int(row["steps"]) for row in group)
        judged = "no" if marks(group, known) else "yes"
        lines.append(f"{name},{group[0]['env']},{len(group)},{mean:.2f},{steps},{judged},{workers}")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = shared.parser(__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    folder = parser.parse_args().results
    if not read_table(folder / "learning.csv"):
        raise UsageError(f"there is no learning.csv in {folder}: run benchmarks/learning.py first")
    write(folder)
    return 0


if __name__ == "__main__":
    shared.answer(main)
