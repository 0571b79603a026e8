"""Learning results: trains hparams sets with several seeds as a user would, and evaluates what came out.

    python benchmarks/learning.py --hparams ppo_cartpole dqn_cartpole --seeds 3
    python benchmarks/learning.py --jobs 2 --nice 10        # all sets that have a bar (bars.py)

Each (set, seed) is a run of train.py in build/learning/SET/seed_N. What has finished with the same settings
is not repeated, and an interrupted run is continued. The last and the best checkpoint are then played for 100
episodes on Gymnasium, which chose neither. Writes learning.csv (a line for each run), learning_curves.csv
(its evaluations) and the report made of them (report.py) in benchmarks/results; lines of sets that are not
named stay.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import measure  # noqa: E402
import report  # noqa: E402
from bars import BARS  # noqa: E402

RUNS = ROOT / "build" / "learning"
FIELDS = ("hparams", "env", "seed", "steps", "best_step", "last", "best", "episodes", "seconds",
          "train_seconds", "eval_seconds", "first_window_s", "cores", "noisy", "command")  # fmt: skip
CURVE_FIELDS = ("hparams", "seed", "step", "return")
EVALUATING = (
    threading.Lock()
)  # runs train side by side; they are evaluated in this process, one after another


class Failed(Exception):
    """A run that came to nothing."""


class Job(NamedTuple):
    """One training run."""

    name: str
    seed: int
    hparams: Any  # as train.py will resolve them
    command: tuple[str, ...]  # as typed in the repository root, after "python"
    folder: Path


def jobs(name: str, args: argparse.Namespace) -> list[Job]:
    """The runs of a set; without evaluations of its own, it gets `--evaluations` of them along the way."""
    from rl.hparams.merge import named

    found = []
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        hparams = named(name)
        called = f"{name}_workers_{args.num_workers}" if args.num_workers else name
        folder = RUNS / called / f"seed_{seed}"
        shown = os.path.relpath(folder, ROOT)
        command = ["train.py", "--hparams", name, "--seed", str(seed), "--output_dir", shown]
        if args.num_workers:
            command += ["--num_workers", str(args.num_workers)]
        if args.train_steps:
            hparams.train_steps = args.train_steps
            command += ["--train_steps", str(args.train_steps)]
        if not hparams.eval_period:
            hparams.eval_period = max(hparams.train_steps // args.evaluations, 1)
            command += ["--hparam_override", f"eval_period={hparams.eval_period}"]
        found.append(Job(called, seed, hparams, tuple(command), folder))
    return found


def times(run_dir: Path) -> dict[str, float]:
    """Wall time by perf.csv, in seconds: of training without the first window, and of evaluations.

    The first window is where compilation happens. Where a run was interrupted and continued, the window
    after that compiled again and counts in full.
    """
    training, evaluation, first = 0.0, 0.0, 0.0
    before = 0.0
    for i, row in enumerate(report.read_table(run_dir / "perf.csv")):
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
    rows = report.read_table(run_dir / "metrics.csv")
    found = [(row["step"], row.get("eval/return_mean")) for row in rows]
    return [(int(step), float(value)) for step, value in found if value]


def finish(job: Job, episodes: int) -> dict[str, Any]:
    """Evaluates a trained run and collects its line of the results."""
    import rl

    run_dir = job.folder / "run_0"
    with EVALUATING:
        returns = {
            which: rl.load(run_dir, which).evaluate(episodes, seed=job.seed + 1).returns
            for which in ("last", "best")
        }
    points = curve(run_dir)
    return {
        "hparams": job.name,
        "env": job.hparams.env,
        "seed": job.seed,
        "steps": points[-1][0],
        "best_step": max(points, key=lambda point: point[1])[0],
        "last": round(float(returns["last"].mean()), 1),
        "best": round(float(returns["best"].mean()), 1),
        "episodes": episodes,
        **times(run_dir),
        "cores": len(os.sched_getaffinity(0)),
        "command": "python " + shlex.join(job.command),
    }


def same_settings(job: Job) -> bool:
    """Whether the run in the job's folder has the set's present values; hparams that are newer than the run
    count with their defaults."""
    from rl.hparams.hparams import HParams

    path = job.folder / "run_0" / "hparams.json"
    if not path.exists():
        return True
    try:
        found = HParams.from_dict(json.loads(path.read_text())["hparams"])
    except Exception:  # damaged, or of hparams that are no more
        return False
    return found.to_dict() == job.hparams.to_dict()


def do(job: Job, args: argparse.Namespace) -> dict[str, Any]:
    """The job's line of the results, from its folder where it is there.

    Raises:
        Failed: training ended with an error, or the run in the folder is another.
    """
    path = job.folder / "result.json"
    command = "python " + shlex.join(job.command)
    if not same_settings(job):
        if not args.restart:
            raise Failed(
                f"{job.folder} is a run with other settings than the set has now: --restart deletes it"
            )
        shutil.rmtree(job.folder)
    if path.exists():
        row = json.loads(path.read_text())
        if (row["command"], row["episodes"]) == (command, args.episodes):
            return row
    # Side by side there is no idle machine to be had.
    idle = args.jobs == 1 and measure.wait_until_idle(args.wait)
    others = measure.Others()
    print(f"{job.name} seed {job.seed}: {command}", flush=True)
    job.folder.mkdir(parents=True, exist_ok=True)
    with (job.folder / "output.txt").open("w") as output:
        child = subprocess.Popen([sys.executable, *job.command], cwd=ROOT, stdout=output, stderr=output)
        if args.nice:
            os.setpriority(os.PRIO_PROCESS, child.pid, args.nice)
        code = child.wait()
    busy = others.cores() > measure.IDLE_CORES
    if code:
        raise Failed(f"{job.name} seed {job.seed} failed, see {job.folder / 'output.txt'}")
    row = finish(job, args.episodes) | {"noisy": not idle or busy}
    path.write_text(json.dumps(row, indent=1) + "\n")
    return row


def write_csv(path: Path, fields: Sequence[str], rows: list[dict[str, Any]], name: str) -> None:
    """Rows of `name` in place of those that a table holds of it."""
    kept = [row for row in report.read_table(path) if row["hparams"] != name]
    merged = sorted([*kept, *rows], key=lambda row: (row["hparams"], int(row["seed"])))  # stable
    scratch = path.with_suffix(".tmp")
    with scratch.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(merged)
    scratch.replace(path)


def write_results(name: str, rows: list[dict[str, Any]], mine: list[Job], folder: Path) -> None:
    """The lines of a set, and the report of all."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "learning.csv", FIELDS, rows, name)
    points = [
        dict(zip(CURVE_FIELDS, (name, job.seed, step, round(value, 1)), strict=True))
        for job in mine
        for step, value in curve(job.folder / "run_0")
    ]
    write_csv(folder / "learning_curves.csv", CURVE_FIELDS, points, name)
    report.write(folder, [name])


def default_sets() -> list[str]:
    """The sets that have a bar, or a peer to be compared with, and exist."""
    from rl.hparams.registry import registry

    return [name for name in (*BARS, report.CHEETAH) if name in registry]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--hparams", nargs="+", metavar="SET", default=default_sets(), help="default: those with a bar")
    add("--seeds", type=int, default=3, help="how many (default 3)")
    add("--first_seed", type=int, default=0)
    add(
        "--num_workers", type=int, default=0, metavar="N", help="as of train.py; results are of SET_workers_N"
    )
    add("--train_steps", type=int, help="default: each set's own")
    add("--evaluations", type=int, default=20, help="during training (default 20)")
    add("--episodes", type=int, default=100, help="of the evaluation afterwards (default 100)")
    add("--jobs", type=int, default=1, metavar="N", help="runs side by side (default 1); their times suffer")
    add("--nice", type=int, default=0, metavar="N", help="priority of the runs, as of the command nice")
    add("--restart", action="store_true", help="delete runs whose set has other settings by now")
    add("--wait", type=float, default=120, metavar="S", help="longest wait for an idle machine (default 120)")
    add("--results", default=str(report.RESULTS), metavar="DIR")
    args = parser.parse_args()
    passed = True
    with ThreadPoolExecutor(args.jobs) as pool:
        todo = {name: jobs(name, args) for name in args.hparams}
        futures = {name: [pool.submit(do, job, args) for job in mine] for name, mine in todo.items()}
        try:
            for name in todo:
                called = todo[name][0].name if todo[name] else name
                passed &= collect(called, todo[name], futures[name], Path(args.results))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return 0 if passed else 1


def collect(name: str, mine: list[Job], futures: list[Future], folder: Path) -> bool:
    """Waits for the runs of a set, writes and prints its results; whether they are what they should be."""
    rows = []
    for future in futures:
        try:
            rows.append(future.result())
        except Failed as error:
            print(error, flush=True)
    if len(rows) < len(futures):
        return False
    write_results(name, rows, mine, folder)
    result = report.verdict(name, rows)
    best, last = ([float(row[which]) for row in rows] for which in ("best", "last"))
    print(f"{name}: best {best}  last {last}  bar {report.bar_text(name)}  {result}", flush=True)
    return "miss" not in result


if __name__ == "__main__":
    sys.exit(main())
