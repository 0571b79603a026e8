"""Learning results: trains hparams sets with several seeds as a user would, and evaluates what came out.

    python benchmarks/learning.py --hparams ppo_cartpole dqn_cartpole --seeds 3

Each (set, seed) is a run of train.py in build/learning/SET/seed_N. What has finished is not repeated, and an
interrupted run is continued. The last and the best checkpoint are then played for 100 episodes on Gymnasium,
which chose neither. Writes benchmarks/results/learning.csv, learning.md and learning_SET.png, keeping the
lines of sets that are not named.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

RESULTS = ROOT / "benchmarks" / "results"
RUNS = ROOT / "build" / "learning"


class Bar(NamedTuple):
    """What a set must reach with every seed."""

    mean_return: float
    steps: int | None = None  # within so many
    seconds: float | None = None  # of wall time, compilation left out


BARS = {
    "ppo_cartpole": Bar(475.0, steps=500_000, seconds=15.0),
    "dqn_cartpole": Bar(475.0, steps=100_000),
    "ppo_pendulum": Bar(-250.0),
    "ppo_acrobot": Bar(-90.0),
    "dqn_mountaincar": Bar(-120.0),
}
FIELDS = ("hparams", "env", "seed", "steps", "best_step", "last", "best", "episodes", "seconds",
          "train_seconds", "eval_seconds", "first_window_s", "noisy", "command")  # fmt: skip


class Job(NamedTuple):
    """One training run."""

    hparams: str
    seed: int
    env: str
    command: tuple[str, ...]  # as typed in the repository root, after "python"
    folder: Path


def jobs(names: Sequence[str], args: argparse.Namespace) -> list[Job]:
    """The runs to make; without evaluations of its own, a set gets `--evaluations` of them along the way."""
    from rl.hparams.merge import named

    found = []
    for name in names:
        hparams = named(name)
        steps = args.train_steps or hparams.train_steps
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            folder = RUNS / name / f"seed_{seed}"
            shown = os.path.relpath(folder, ROOT)
            command = ["train.py", "--hparams", name, "--seed", str(seed), "--output_dir", shown]
            if args.train_steps:
                command += ["--train_steps", str(steps)]
            if not hparams.eval_period:
                command += ["--hparam_override", f"eval_period={max(steps // args.evaluations, 1)}"]
            found.append(Job(name, seed, hparams.env, tuple(command), folder))
    return found


def read_table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


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
    rows = read_table(run_dir / "metrics.csv")
    found = [(row["step"], row.get("eval/return_mean")) for row in rows]
    return [(int(step), float(value)) for step, value in found if value]


def finish(job: Job, episodes: int) -> dict[str, Any]:
    """Evaluates a trained run and collects its line of the results."""
    import rl

    run_dir = job.folder / "run_0"
    returns = {which: rl.load(run_dir, which).evaluate(episodes).returns for which in ("last", "best")}
    points = curve(run_dir)
    return {
        "hparams": job.hparams,
        "env": job.env,
        "seed": job.seed,
        "steps": points[-1][0],
        "best_step": max(points, key=lambda point: point[1])[0],
        "last": round(float(returns["last"].mean()), 1),
        "best": round(float(returns["best"].mean()), 1),
        "episodes": episodes,
        **times(run_dir),
        "command": "python " + shlex.join(job.command),
    }


def do(job: Job, episodes: int, wait_s: float) -> dict[str, Any]:
    """The job's line of the results, from its folder where it is there."""
    import measure

    path = job.folder / "result.json"
    command = "python " + shlex.join(job.command)
    if path.exists():
        row = json.loads(path.read_text())
        if (row["command"], row["episodes"]) == (command, episodes):
            return row
    idle = measure.wait_until_idle(wait_s)
    others = measure.Others()
    print(f"{job.hparams} seed {job.seed}: {command}", flush=True)
    done = subprocess.run([sys.executable, *job.command], cwd=ROOT, stdout=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"{job.hparams} seed {job.seed} failed; {job.folder} holds what it left")
    row = finish(job, episodes) | {"noisy": not idle or others.cores() > measure.IDLE_CORES}
    path.write_text(json.dumps(row, indent=1) + "\n")
    return row


def verdict(name: str, rows: list[dict[str, Any]]) -> str:
    """pass, what is amiss, or - for a set without a bar. The best checkpoint of every seed counts."""
    if name not in BARS:
        return "-"
    bar, wrong = BARS[name], []
    if min(float(row["best"]) for row in rows) < bar.mean_return:
        wrong.append("return")
    # Iterations are whole, so that a run ends a little after its train_steps; the checkpoint is what counts.
    if bar.steps is not None and max(int(row["best_step"]) for row in rows) > bar.steps:
        wrong.append("steps")
    if bar.seconds is not None and max(float(row["seconds"]) for row in rows) > bar.seconds:
        wrong.append("time")
    return "MISS: " + ", ".join(wrong) if wrong else "pass"


def bar_text(name: str) -> str:
    if name not in BARS:
        return "-"
    bar = BARS[name]
    limits = [f">= {bar.mean_return:g}"]
    limits += [f"{bar.steps:,} steps"] if bar.steps else []
    limits += [f"{bar.seconds:g} s"] if bar.seconds else []
    return ", ".join(limits)


def markdown(rows: list[dict[str, Any]]) -> str:
    header = ["hparams", "environment", "steps", "best checkpoint, by seed", "mean", "min",
              "last checkpoint, by seed", "mean", "seconds, by seed", "bar", "result"]  # fmt: skip
    cores = len(os.sched_getaffinity(0))
    lines = ["# Learning", "", f"{cores} cores, no GPU. Written by `python benchmarks/learning.py`; see "]
    lines[-1] += "../README.md."
    lines += ["", "| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    names = list(dict.fromkeys(row["hparams"] for row in rows))
    for name in names:
        group = [row for row in rows if row["hparams"] == name]
        best = [float(row["best"]) for row in group]
        last = [float(row["last"]) for row in group]
        cells = [name, group[0]["env"], f"{max(int(row['steps']) for row in group):,}"]
        cells += [
            ", ".join(f"{value:.1f}" for value in best),
            f"{statistics.mean(best):.1f}",
            f"{min(best):.1f}",
        ]
        cells += [", ".join(f"{value:.1f}" for value in last), f"{statistics.mean(last):.1f}"]
        cells += [", ".join(f"{float(row['seconds']):.1f}" for row in group), bar_text(name)]
        lines.append("| " + " | ".join([*cells, verdict(name, group)]) + " |")
    lines += [
        "",
        f"Mean returns of {rows[0]['episodes']} episodes on Gymnasium, undiscounted and without exploration. "
        "seconds: wall time of training and of the evaluations during it, without the first window (row of "
        "metrics), in which compilation happens. The best checkpoint was chosen by evaluations of 10 "
        "episodes during training. The bar is for the best checkpoint of every seed.",
        "",
    ]
    for name in names:
        lines += [f"![{name}](learning_{name}.png)", ""]
    lines += ["Commands:", ""]
    lines += [f"    {row['command']}" for row in rows]
    return "\n".join(lines) + "\n"


def plot(name: str, folder: Path, curves: list[list[tuple[int, float]]]) -> None:
    """Mean over seeds, and the band from the worst to the best, at the steps that all seeds evaluated at."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    values = [dict(points) for points in curves]
    steps = sorted(set.intersection(*(set(each) for each in values)))
    at = [[each[step] for each in values] for step in steps]
    figure, axes = plt.subplots(figsize=(4.8, 3.2), layout="constrained")
    axes.fill_between(steps, [min(x) for x in at], [max(x) for x in at], alpha=0.25, linewidth=0)
    axes.plot(steps, [statistics.mean(x) for x in at])
    if name in BARS:
        axes.axhline(BARS[name].mean_return, color="gray", linestyle="--", linewidth=1)
    axes.set(xlabel="environment steps", ylabel="evaluation return", title=f"{name}, {len(curves)} seeds")
    axes.grid(alpha=0.3)
    figure.savefig(folder / f"learning_{name}.png", dpi=80)
    plt.close(figure)


def write_results(rows: list[dict[str, Any]], names: Sequence[str], folder: Path) -> list[dict[str, Any]]:
    """learning.csv and learning.md; returns all their lines, those of other sets from before included."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "learning.csv"
    kept: list[dict[str, Any]] = []
    if path.exists():
        kept = [row for row in read_table(path) if row["hparams"] not in names]
    merged = sorted([*kept, *rows], key=lambda row: (row["hparams"], int(row["seed"])))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(merged)
    (folder / "learning.md").write_text(markdown(merged))
    return merged


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--hparams", nargs="+", metavar="SET", default=list(BARS), help="default: those with a bar")
    add("--seeds", type=int, default=3, help="how many (default 3)")
    add("--first_seed", type=int, default=0)
    add("--train_steps", type=int, help="default: each set's own")
    add("--evaluations", type=int, default=20, help="during training (default 20)")
    add("--episodes", type=int, default=100, help="of the evaluation afterwards (default 100)")
    add("--wait", type=float, default=120, metavar="S", help="longest wait for an idle machine (default 120)")
    add("--results", default=str(RESULTS), metavar="DIR")
    args = parser.parse_args()
    folder, passed = Path(args.results), True
    todo = jobs(args.hparams, args)
    for name in args.hparams:
        mine = [job for job in todo if job.hparams == name]
        rows = [do(job, args.episodes, args.wait) for job in mine]
        write_results(rows, [name], folder)
        try:
            plot(name, folder, [curve(job.folder / "run_0") for job in mine])
        except ModuleNotFoundError as error:
            print(f"no learning curves: {error.name} is missing, pip install '.[bench]'")
        result = verdict(name, rows)
        passed = passed and not result.startswith("MISS")
        best, last = ([float(row[which]) for row in rows] for which in ("best", "last"))
        print(f"{name}: best {best}  last {last}  bar {bar_text(name)}  {result}", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
