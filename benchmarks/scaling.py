"""Steps per second with 1 to 16 workers, and the time to solve CartPole, beside RLlib's.

    python benchmarks/scaling.py --venvs build/peers            # everything, with RLlib in the same run
    python benchmarks/scaling.py --skip_peers --task rate       # the curves of this project alone
    python benchmarks/scaling.py --report                       # report and picture again, from the CSV file

rate: an environment that sleeps 5 ms a step (sleeping_env.py), one for each worker, so that the cores are
not the limit; from some seconds after the moment when all workers play and the learner updates. learn: from
the launch of the process until the mean return of the last 100 training episodes is 450, on CartPole-v1.

In each round everything runs once. Rows that are in scaling.csv, of the same seconds, niceness and `--awake`,
are not measured again, so that an interrupted run goes on (`--restart` forgets all); the report pools no
others. Writes scaling.csv, scaling.md and scaling.png in
benchmarks/results. What each library runs is in ours_workers.py and peers/rllib_workers.py.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import measure
import peer_environments
import scaling_report
import shared
from shared import RESULTS, ROOT, UsageError

ALGOS = ("environment", "impala", "apex", "appo")
WORKERS = (1, 2, 4, 8, 16)
BEHIND = 5  # niceness of workers above that of their learner, as rl.workers.cluster has it
OURS, RLLIB = "benchmarks/ours_workers.py", "benchmarks/peers/rllib_workers.py"
PLACE = "rayv"  # RLlib's environment
FIELDS = (
    "task", "library", "version", "algo", "env", "workers", "envs", "round", "env_steps_per_s",
    "updates_per_s", "learner_waits", "staleness", "trained_steps", "reached", "seconds_from_launch",
    "seconds_from_first_update", "best_return", "return_mean", "total_env_steps", "measured_s", "startup_s",
    "memory_mb", "idle", *scaling_report.ALIKE, "date", "command",
)  # fmt: skip
KEY = ("task", "library", "algo", "env", "workers", "envs", "round", *scaling_report.ALIKE)
SHOWN = ("env_steps_per_s", "updates_per_s", "learner_waits", "reached", "seconds_from_launch",
         "seconds_from_first_update", "startup_s", "memory_mb")  # fmt: skip


class Run(NamedTuple):
    """One process of one round."""

    task: str  # "rate" or "learn"
    library: str  # "ours", "rllib", or "environment": one alone, without agent and workers
    algo: str
    workers: int = 1
    envs: int = 1  # of each worker
    env: str = "SleepingCartPole-v1"

    def arguments(self, round_number: int, args: argparse.Namespace) -> list[str]:
        """Of the interpreter."""
        script = RLLIB if self.library == "rllib" else OURS
        words = [script, self.algo, "--task", self.task, "--workers", str(self.workers)]
        words += ["--envs", str(self.envs), "--env", self.env, "--seed", str(round_number)]
        if self.task == "rate":
            return [*words, "--warmup_s", f"{args.warmup_s:g}", "--measure_s", f"{args.measure_s:g}"]
        return [*words, "--limit_s", f"{args.limit_s:g}"]

    def alike(self, args: argparse.Namespace) -> dict[str, str]:
        """How it is measured: `ALIKE` of its row."""
        seconds = [f"{each:g}" if self.task == "rate" else "" for each in (args.warmup_s, args.measure_s)]
        return dict(zip(scaling_report.ALIKE, (str(args.awake), str(os.nice(0)), *seconds), strict=True))

    def key(self, round_number: int, args: argparse.Namespace) -> tuple[str, ...]:
        """What tells its row from others, in the order of `KEY`."""
        values = (self.task, self.library, self.algo, self.env, self.workers, self.envs, round_number)
        return tuple(str(value) for value in (*values, *self.alike(args).values()))


def plan(args: argparse.Namespace) -> list[Run]:
    """What a round runs, in this order: what is compared lies side by side."""
    runs: list[Run] = []
    libraries = ["ours"] if args.skip_peers else ["ours", "rllib"]
    if args.task != "learn":
        runs.append(Run("rate", "environment", "environment"))
        for count in args.workers:
            runs += [Run("rate", "ours", algo, count) for algo in ("impala", "apex")]
            if not args.skip_peers and count in args.peer_workers:
                runs += [Run("rate", "rllib", algo, count) for algo in ("impala", "appo")]
    if args.task != "rate":
        for count in args.learn_workers:
            for algo in ("impala", "appo"):
                runs += [Run("learn", each, algo, count, 16, "CartPole-v1") for each in libraries]
    return [run for run in runs if not args.only or run.algo in args.only]


def read_rows(path: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """The rows measured so far, by their keys."""
    return {tuple(row[name] for name in KEY): row for row in shared.read_table(path)}


@contextlib.contextmanager
def awake(wanted: bool) -> Iterator[list[int]]:
    """Keeps every core of this process busy at the scheduler's idle priority, which takes time from no one.

    A virtual machine gives idle cores away, and workers that sleep at every step then wait for them at every
    step.
    """
    loop = "import os; os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    count = len(os.sched_getaffinity(0)) if wanted else 0
    loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(count)]
    try:
        yield [each.pid for each in loops]
    finally:
        for each in loops:
            each.kill()
            each.wait()


def one_run(run: Run, round_number: int, args: argparse.Namespace) -> dict[str, Any]:
    """Its row; with `error` where it failed."""
    words = run.arguments(round_number, args)
    python = sys.executable
    if run.library == "rllib":
        python = str(peer_environments.python_of(Path(args.venvs).resolve(), PLACE))
    environ = dict(os.environ, CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="2")
    environ["RL_PROGRAM_CACHE"] = "off"  # no programs that were compiled before
    # RLlib's workers too: Ray's own 15 would put them behind everyone's processes.
    environ["RAY_worker_niceness"] = str(min(os.nice(0) + BEHIND, 19))
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME", "OMP_NUM_THREADS"):
        environ.pop(name, None)
    idle = measure.wait_until_idle(args.wait)
    with awake(args.awake):
        found = measure.run([python, *words], str(ROOT), environ, 0.0, args.timeout) | {"idle": idle}
    row = found | {name: getattr(run, name) for name in ("task", "library", "algo", "env", "workers", "envs")}
    row |= {"round": round_number, **run.alike(args)}
    row |= {"command": "python " + " ".join(words)}
    return row | {"date": datetime.datetime.now().isoformat(timespec="seconds")}


def measure_all(args: argparse.Namespace, path: Path) -> bool:
    """Measures what is missing, writing after every run; whether all went well."""
    rows = {} if args.restart else read_rows(path)
    runs = plan(args)
    todo = [(i, run) for i in range(1, args.rounds + 1) for run in runs if run.key(i, args) not in rows]
    well = True
    for done, (round_number, run) in enumerate(todo):
        row = one_run(run, round_number, args)
        shown = "  ".join(f"{name} {row[name]}" for name in SHOWN if row.get(name) not in (None, ""))
        what = f"{run.task} {run.library} {run.algo} x {run.workers}"
        noise = "" if row["idle"] else "  (others used the machine)"
        print(f"[{done + 1}/{len(todo)}] round {round_number}  {what}  {shown}{noise}", flush=True)
        if "error" in row or not {"env_steps_per_s", "seconds_from_launch"} & set(row):
            well = False
            print(f"failed: {row.get('error')}: {row['output'][-800:]}", flush=True)
            continue
        rows[run.key(round_number, args)] = {name: str(row.get(name, "")) for name in FIELDS}
        shared.write_table(path, FIELDS, rows.values())
    return well


def command_line() -> argparse.ArgumentParser:
    parser, count = shared.parser(__doc__), shared.integer(1)
    number, above = shared.number(0.0), shared.number(0.0, above=True)
    add = parser.add_argument
    add("--task", choices=("both", "rate", "learn"), default="both")
    add("--only", nargs="+", choices=ALGOS, metavar="ALGO", help=f"of {', '.join(ALGOS)}")
    add("--rounds", type=count, default=3)
    add("--workers", type=count, nargs="+", default=list(WORKERS))
    add("--peer_workers", type=count, nargs="+", default=[1, 4, 8, 16], help="of RLlib")
    add("--learn_workers", type=count, nargs="+", default=[2])
    add("--skip_peers", action="store_true", help="without RLlib")
    add("--venvs", default=str(ROOT / "build" / "peers"), metavar="DIR", help="where RLlib's environment is")
    add("--warmup_s", type=number, default=5.0)
    add("--measure_s", type=above, default=15.0)
    add("--limit_s", type=above, default=240.0, help="longest training")
    add("--timeout", type=above, default=420.0, help="longest process, seconds")
    add("--wait", type=number, default=60.0, help="longest wait for an idle machine, seconds")
    add("--awake", action="store_true", help="keep the cores awake: for idle virtual machines, see awake()")
    add("--restart", action="store_true", help="forget the rows measured before")
    add("--report", action="store_true", help="only write the report")
    add("--results", type=Path, default=RESULTS, metavar="DIR")
    return parser


def main() -> int:
    args = command_line().parse_args()
    folder, well = args.results, True
    path = folder / "scaling.csv"
    if not args.report and not plan(args):
        raise UsageError(f"--only {' '.join(args.only)}: of these nothing runs with the other arguments")
    if args.report and not read_rows(path):
        raise UsageError(f"there is no scaling.csv in {folder}: nothing to report")
    if not args.report:
        if not args.skip_peers:
            peer_environments.prepare(Path(args.venvs).resolve(), PLACE)
        well = measure_all(args, path)
    print(scaling_report.write(list(read_rows(path).values()), folder))
    return 0 if well else 1


if __name__ == "__main__":
    try:
        shared.answer(main)
    except peer_environments.EnvironmentFailure as failure:
        sys.exit(f"error: {failure}")
