"""Learning results: trains hparams sets with several seeds as a user would, and evaluates what came out.

    python benchmarks/learning.py --jobs 2 --nice 10      # all sets that have a bar (bars.py), cheapest first
    python benchmarks/learning.py --jobs 2 --stale_only --seconds 3600 --most_seconds 300
    python benchmarks/learning.py --hparams ppo_cartpole dqn_cartpole --seeds 3
    python benchmarks/learning.py --hparams ppo_cartpole --tune       # seeds 0 to 4, nothing is written

Sets are judged by seeds 100 to 104, which no tuning may see, by 100 episodes, and for their own steps.
Those that were changed after it are judged once more by 105 to 109 (`--first_seed 105`; confirmed.csv). With
other seeds nothing is written: a table is printed. Each (set, seed) is a run of train.py in
build/learning/SET/seed_N (of other seeds in build/tuning). What has finished with the hparams that the set
has now is not repeated, and an interrupted run is continued. The last and the best checkpoint are then played
for 100 episodes on Gymnasium, which chose neither. Writes learning.csv (a line for each run),
learning_hparams.json (what was trained), learning_curves.csv (the runs' own evaluations), judgements.csv
(which sets were judged again, with other values) and the report of all (report.py) in benchmarks/results;
lines of sets that are not named stay. What sets that learn from others are given (bars.py) is made where it
is missing (make_data.py).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import judgements
import make_data
import measure
import report
import shared
import trained
import verdicts
from bars import BARS, DATA, FRESH, GIVEN, JUDGED, WITH_WORKERS, given
from children import end, ended_by_sigterm, run
from shared import ROOT, UsageError, nearest

EPISODES = 100  # that a set is judged by
RUNS, TUNING = ROOT / "build" / "learning", ROOT / "build" / "tuning"
TRAINED, RESULT = "trained.json", "result.json"  # of a run: that it was trained, and its line of the results
EPOCH = time.monotonic()  # --seconds counts from here


class Failed(Exception):
    """A run that came to nothing."""


class NoTime(Exception):
    """A run that was not begun in the time of `--seconds`."""


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

    found, others = [], given(name)
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        hparams, overrides = named(name), [f"{key}={value}" for key, value in others.items()]
        hparams.assign(others)
        folder = (RUNS if args.judged else TUNING) / called(name, args) / f"seed_{seed}"
        shown = os.path.relpath(folder, ROOT)
        command = ["train.py", "--hparams", name, "--seed", str(seed), "--output_dir", shown]
        if args.num_workers:
            command += ["--num_workers", str(args.num_workers)]
        if args.train_steps:
            hparams.train_steps = args.train_steps
            command += ["--train_steps", str(args.train_steps)]
        if not hparams.eval_period:
            hparams.eval_period = max(hparams.train_steps // args.evaluations, 1)
            overrides.append(f"eval_period={hparams.eval_period}")
        if overrides:
            command += ["--hparam_override", ",".join(overrides)]
        found.append(Job(called(name, args), seed, hparams, tuple(command), folder))
    return found


def play(mine: list[Job], args: argparse.Namespace) -> list[dict[str, float]]:
    """Mean returns of trained runs' last and best checkpoints; one process plays them all.

    Raises:
        Failed: one of them cannot be played.
    """
    output = mine[0].folder / "evaluation.txt"
    pairs = [word for job in mine for word in (str(job.folder / "run_0"), str(job.seed + 1))]
    code = run(["benchmarks/evaluate.py", str(args.episodes), *pairs], output, args.nice)
    lines = output.read_text().splitlines()
    found = [json.loads(line.removeprefix("JSON ")) for line in lines if line.startswith("JSON ")]
    if code or len(found) < len(mine):
        raise Failed(f"{mine[0].name}: no evaluation, see {output}")
    return found


def line(job: Job, means: dict[str, float], args: argparse.Namespace) -> dict[str, Any]:
    """A run's line of the results."""
    run_dir = job.folder / "run_0"
    points = report.curve(run_dir)
    return {
        "hparams": job.name,
        "env": job.hparams.env,
        "seed": job.seed,
        "steps": points[-1][0],
        "best_step": max(points, key=lambda point: point[1])[0],
        "last": round(means["last"], 2),
        "best": round(means["best"], 2),
        "episodes": args.episodes,
        **report.times(run_dir),
        "cores": len(os.sched_getaffinity(0)),
        "fingerprint": trained.fingerprint(job.hparams),
        "command": "python " + shlex.join(job.command),
        **json.loads((job.folder / TRAINED).read_text()),
    }


def same_settings(job: Job) -> bool:
    """Whether the run in the job's folder, if there is one, has what the set has now, as far as learning
    depends on it; hparams that are newer than the run count with their defaults."""
    path = job.folder / "run_0" / "hparams.json"
    if not path.exists():
        return not (job.folder / RESULT).exists()
    try:
        found = trained.revived(json.loads(path.read_text())["hparams"])
    except Exception:  # damaged, or of hparams that are no more
        return False
    return trained.fingerprint(found) == trained.fingerprint(job.hparams)


def finished(job: Job, args: argparse.Namespace) -> dict[str, Any] | None:
    """The line of a run that was trained and played before."""
    path = job.folder / RESULT
    row = json.loads(path.read_text()) if path.exists() else None
    if row is None or row["episodes"] != args.episodes:
        return None
    return row | {"fingerprint": trained.fingerprint(job.hparams)}  # what is newer is as it was


def train(job: Job, args: argparse.Namespace) -> None:
    """Trains a run, unless that is done.

    Raises:
        Failed: training ended with an error, or the run in the folder is another.
        NoTime: it would have to be trained, and there is no time left.
    """
    if not same_settings(job):
        if not args.restart:
            raise Failed(
                f"{job.folder} is a run with other settings than the set has now: --restart deletes it"
            )
        shutil.rmtree(job.folder)
    if (job.folder / TRAINED).exists() or finished(job, args):
        return
    if args.seconds is not None and time.monotonic() - EPOCH > args.seconds:
        raise NoTime
    # Side by side there is no idle machine to be had.
    idle = args.jobs == 1 and measure.wait_until_idle(args.wait)
    others, version = measure.Others(), trained.version()
    print(f"{job.name} seed {job.seed}: python {shlex.join(job.command)}", flush=True)
    job.folder.mkdir(parents=True, exist_ok=True)
    code = run(job.command, job.folder / "output.txt", args.nice)
    busy = others.cores() > measure.IDLE_CORES
    if code:
        raise Failed(f"{job.name} seed {job.seed} failed, see {job.folder / 'output.txt'}")
    version = trained.version_of_run(job.folder / "run_0", version)
    write_json(job.folder / TRAINED, {"noisy": not idle or busy, "version": version})


def results(mine: list[Job], args: argparse.Namespace) -> list[dict[str, Any]]:
    """The lines of trained runs, which are played where that was not done before. Raises Failed."""
    todo = [job for job in mine if not finished(job, args)]
    for job, means in zip(todo, play(todo, args) if todo else [], strict=True):
        write_json(job.folder / RESULT, line(job, means, args))
    return [row for job in mine if (row := finished(job, args))]


def write_json(path: Path, values: dict[str, Any]) -> None:
    shared.write(path, json.dumps(values, indent=1) + "\n")


def default_sets(folder: Path) -> list[str]:
    """The sets that have a bar and exist, cheapest first by the mean time of a run in the table; those that
    have never been measured last."""
    from rl.hparams.registry import registry

    seconds = measured_seconds(folder)
    return sorted(
        (name for name in BARS if name in registry), key=lambda name: seconds.get(name, float("inf"))
    )


def measured_seconds(folder: Path) -> dict[str, float]:
    """Mean wall time of a set's runs, as the table has it; with workers it counts for the set without as
    well, unless that is there itself."""
    found: dict[str, list[float]] = {}
    for row in report.read_table(folder / "learning.csv"):
        found.setdefault(row["hparams"], []).append(verdicts.wall_seconds(row))
    means = {name: sum(values) / len(values) for name, values in found.items()}
    return {WITH_WORKERS.sub("", name): seconds for name, seconds in means.items()} | means


def chosen(args: argparse.Namespace) -> list[str]:
    """The sets to be run."""
    folder = args.results
    names = args.hparams or default_sets(folder)
    if args.most_seconds is not None:
        seconds = measured_seconds(folder)
        unknown = 0.0 if args.hparams else float("inf")
        names = [name for name in names if seconds.get(called(name, args), unknown) <= args.most_seconds]
    if args.stale_only:
        names = [name for name in names if not report.up_to_date(called(name, args), folder)]
    return names


def called(name: str, args: argparse.Namespace) -> str:
    """How results of a set are named."""
    return f"{name}_workers_{args.num_workers}" if args.num_workers else name


def parse() -> argparse.Namespace:
    parser, count, seconds = shared.parser(__doc__), shared.integer(1), shared.number(0.0)
    add = parser.add_argument
    text = "default: those with a bar, cheapest first"
    add("--hparams", nargs="+", type=set_of_a_task, metavar="SET", help=text)
    add("--seeds", type=count, default=len(JUDGED), help=f"how many (default {len(JUDGED)})")
    text = f"default {JUDGED[0]}; only {JUDGED[0]} to {FRESH[-1]} are written"
    add("--first_seed", type=shared.integer(0), help=text)
    add("--tune", action="store_true", help="short for --first_seed 0 --restart")
    text = "as of train.py; results are of SET_workers_N"
    add("--num_workers", type=shared.integer(0), default=0, metavar="N", help=text)
    add("--train_steps", type=count, help="default: each set's own; of tuning alone")
    add("--evaluations", type=count, default=20, help="during training (default 20)")
    text = f"of the evaluation afterwards (default {EPISODES}; others in tuning alone)"
    add("--episodes", type=count, default=EPISODES, help=text)
    text = "runs side by side (default 1); their times suffer"
    add("--jobs", type=count, default=1, metavar="N", help=text)
    text = "priority of the runs, as of the command nice"
    add("--nice", type=shared.integer(0, 19), default=0, metavar="N", help=text)
    add("--restart", action="store_true", help="delete runs whose set has other settings by now")
    add("--stale_only", action="store_true", help="leave out sets whose judgement is up to date")
    text = "start no run after so long; what is missing, next time"
    add("--seconds", type=seconds, metavar="S", help=text)
    text = "leave out sets whose runs took longer the last time and, unless named, those never measured"
    add("--most_seconds", type=seconds, metavar="S", help=text)
    text = "longest wait for an idle machine (default 120)"
    add("--wait", type=seconds, default=120.0, metavar="S", help=text)
    add("--results", type=Path, default=report.RESULTS, metavar="DIR")
    return checked(parser.parse_args())


def set_of_a_task(text: str) -> str:
    """Is an argparse type: a set that can be trained by its name alone."""
    from rl.hparams.merge import named

    hparams = named(text)
    if not hparams.algo or not (hparams.env or hparams.data or text in GIVEN):
        raise UsageError(f"--hparams {text} names no task to learn: {nearest(text, BARS)}")
    return text


def checked(args: argparse.Namespace) -> argparse.Namespace:
    """The arguments, with `judged`: whether they are of a judgement. Raises UsageError for seeds of both
    kinds, and for a judgement by other episodes or steps."""
    if args.tune and args.first_seed is not None:
        raise UsageError("--tune has seeds from 0 on: leave out --first_seed")
    if args.tune:
        args.first_seed, args.restart = 0, True
    elif args.first_seed is None:
        args.first_seed = JUDGED[0]
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    args.fresh = set(seeds) <= set(FRESH)
    args.judged = args.fresh or set(seeds) <= set(JUDGED)
    if not args.judged and set(seeds) & {*JUDGED, *FRESH}:
        ranges = f"{JUDGED[0]} to {JUDGED[-1]}, once more by {FRESH[0]} to {FRESH[-1]}"
        kinds = f"sets are judged by {ranges}, and tuned with others"
        raise UsageError(f"seeds {seeds[0]} to {seeds[-1]}: {kinds}")
    if args.judged and args.episodes != EPISODES:
        raise UsageError(f"--episodes {args.episodes}: sets are judged by {EPISODES}; add --tune for others")
    if args.judged and args.train_steps:
        raise UsageError("--train_steps: sets are judged by the steps that they have; add --tune for others")
    return args


def main() -> int:
    args = parse()
    passed = True
    names = chosen(args)
    with ended_by_sigterm(), ThreadPoolExecutor(args.jobs) as pool:
        todo = {name: jobs(name, args) for name in names}
        make_data.provide({GIVEN[name].task for name in names if name in GIVEN}, ROOT / DATA, args.nice)
        futures = {name: [pool.submit(train, job, args) for job in mine] for name, mine in todo.items()}
        try:
            for name, mine in todo.items():
                passed &= collect(called(name, args), mine, futures[name], args)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end()
            raise
    return 0 if passed else 1


def collect(name: str, mine: list[Job], futures: list[Future], args: argparse.Namespace) -> bool:
    """Waits for the runs of a set, plays them, writes (judged ones) and prints the results; whether they are
    what they should be. A set of which runs are missing is neither played nor written."""
    missing = 0
    for future in futures:
        try:
            future.result()
        except Failed as error:
            missing += 1
            print(error, flush=True)
        except NoTime:
            missing += 1
    if missing:
        done = len(futures) - missing
        print(f"{name}: {done} of {len(futures)} runs are done, the results wait for the rest", flush=True)
        return False
    try:
        rows = results(mine, args)
    except Failed as error:
        print(error, flush=True)
        return False
    if args.fresh:
        judgements.write_confirmed(name, rows, mine, args.results)
    elif args.judged:
        judgements.write_results(name, rows, mine, args.results)
    result = verdicts.verdict(name, rows)
    best, last = ([float(row[which]) for row in rows] for which in ("best", "last"))
    words = "" if args.judged else "tuning, not written: "
    print(f"{words}{name}: last {last}  best {best}  bar {verdicts.bar_text(name)}  {result}", flush=True)
    return "miss" not in result


if __name__ == "__main__":
    shared.answer(main)
