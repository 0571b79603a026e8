"""IQL, TD3+BC, CQL and ReBRAC beside d3rlpy's, on data of our own making.

    python benchmarks/make_data.py --tasks hopper halfcheetah --qualities medium-replay medium
    python benchmarks/offline_peers.py --data data --peer PEER_PYTHON --steps 100000
    python benchmarks/offline_peers.py --report

Ours are the named sets, `td3_bc_hopper` and so on; `peers/d3rlpy_offline.py` has the same networks, batches
and rates. A run is a process of its own, and its result a file of one line in `--work`, so that a
measurement that was interrupted goes on; ours go on within a run, too. A result, there or in the table,
counts as long as data, steps, episodes, settings and the number of cores are the same; the page shows those
of the settings of now. Both libraries take turns, and
are bound to the cores that `--cpus` names; other calls may work beside this one, on other cores, in the same
`--work`. Writes offline_peers.md and offline_peers.csv.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import arithmetic
import measure
import numpy as np
import report
import shared
import trained
from shared import ROOT

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ALGOS = ("td3_bc", "iql", "rebrac", "cql")  # the cheapest first
LIBRARIES = ("ours", "d3rlpy")
SETS = ("hopper-medium", "hopper-medium-replay", "halfcheetah-medium", "halfcheetah-medium-replay")
ENVS = {"hopper": "Hopper-v5", "halfcheetah": "HalfCheetah-v5"}
SIZES = {"hopper": (11, 3), "halfcheetah": (17, 6)}  # of observations and actions
# Mean returns that D4RL's scores of 0 and 100 stand for: of random actions, and of an expert
# (Fu et al. 2020, https://arxiv.org/abs/2004.07219, appendix A).
REFERENCES = {"hopper": (-20.272305, 3234.3), "halfcheetah": (-280.178953, 12135.0)}
# ReBRAC's, of policy and critic: the paper's for each data set (https://arxiv.org/abs/2305.09836, table 9).
PENALTIES = {
    "hopper-medium": (0.01, 0.001),
    "hopper-medium-replay": (0.05, 0.5),
    "halfcheetah-medium": (0.001, 0.01),
    "halfcheetah-medium-replay": (0.01, 0.001),
}
PEER = ROOT / "benchmarks" / "peers" / "d3rlpy_offline.py"
FIELDS = ("library", "algo", "data", "seed", "steps", "episodes", "cpus", "score", "return_mean",
          "updates_per_s", "peak", "noisy", "versions", "columns", "settings")  # fmt: skip


class Job(NamedTuple):
    """One training run, and what its result depends on."""

    library: str
    algo: str
    data: str  # name of the data set
    seed: int
    steps: int  # gradient updates
    episodes: int  # that its policy is judged by
    cpus: int  # cores
    columns: str  # CRC-32 of the data's columns
    settings: str  # a hash: of our set's values, or of the peer's script and penalties

    @property
    def name(self) -> str:
        return f"{self.algo}-{self.data}-{self.seed}-{self.library}"

    @property
    def place(self) -> str:
        """The name of its files in `--work`: no other job has the same."""
        counts = f"{self.steps}-{self.episodes}-{self.cpus}"
        return f"{self.name}-{counts}-{self.columns}-{self.settings}"

    @property
    def task(self) -> str:
        return self.data.partition("-")[0]


def overrides(algo: str, data: str, steps: int) -> dict[str, Any]:
    """What our named set is given: no evaluation on the way, 20 rows of metrics, ReBRAC's penalties."""
    found: dict[str, Any] = {"train_steps": steps, "eval_period": 0, "log_period": max(steps // 20, 1)}
    if algo == "rebrac":
        found["policy_penalty"], found["critic_penalty"] = PENALTIES[data]
    return found


def settings(library: str, algo: str, data: str, steps: int) -> str:
    """A fingerprint of what a library is told."""
    if library == "ours":
        from rl.hparams.merge import resolve

        return trained.fingerprint(resolve(f"{algo}_{data.partition('-')[0]}", overrides(algo, data, steps)))
    told = PEER.read_bytes() + repr(PENALTIES[data] if algo == "rebrac" else "").encode()
    return hashlib.sha256(told).hexdigest()[: trained.LENGTH]


def folder_of(data: Path, name: str) -> Path:
    """The folder of a data set. Raises UsageError with the command that makes it."""
    found = data / f"{name}-v0"
    if not (found / "data" / "main_data.hdf5").exists():
        task = name.partition("-")[0]
        words = f"--tasks {task} --qualities medium-replay medium --output_dir {data}"
        raise shared.UsageError(f"there is no {found}: make it by python benchmarks/make_data.py {words}")
    return found


def flat_file(data: Path, name: str, work: Path) -> Path:
    """The same data set as the file that d3rlpy reads; made where it is not there, or older."""
    folder, found = folder_of(data, name), work / f"{name}.npz"
    if not found.exists() or found.stat().st_mtime < (folder / "data" / "main_data.hdf5").stat().st_mtime:
        words = ["convert", str(folder.resolve()), "--to", str(found.resolve()), "--force"]
        subprocess.run([sys.executable, "-m", "rl.data", *words], cwd=ROOT, check=True)
    return found


def jobs(args: argparse.Namespace) -> list[Job]:
    """All runs: seed by seed, the libraries in turn."""
    flat = {name: flat_file(args.data, name, args.work) for name in args.sets}
    columns = {name: f"{zlib.crc32(path.read_bytes()):08x}" for name, path in flat.items()}
    cpus = len(os.sched_getaffinity(0))
    return [
        Job(library, algo, name, seed, args.steps, args.episodes, cpus, columns[name],
            settings(library, algo, name, args.steps))
        for seed in args.seeds for algo in args.algos for name in args.sets for library in args.libraries
    ]  # fmt: skip


def command(job: Job, args: argparse.Namespace) -> list[str]:
    """The words that make a run."""
    if job.library == "ours":
        words = [sys.executable, str(Path(__file__)), "--one", json.dumps(job), "--data", str(args.data)]
        return [*words, "--work", str(args.work)]
    policy, critic = PENALTIES[job.data]
    values = {"algo": job.algo, "data": args.work / f"{job.data}.npz", "env": ENVS[job.task],
              "seed": job.seed, "steps": job.steps, "episodes": job.episodes, "threads": job.cpus,
              "policy_penalty": policy, "critic_penalty": critic}  # fmt: skip
    return [args.peer, str(PEER), *(f"--{name}={value}" for name, value in values.items())]


def train_and_play(job: Job, args: argparse.Namespace) -> dict[str, Any]:
    """Trains ours in this process; returns what the peer's script prints."""
    from rl.imports import import_tensorflow

    import_tensorflow()  # as the command line does, so that XLA computes as in train.py
    import gymnasium
    import mujoco
    import tensorflow as tf

    import rl

    data = str(folder_of(args.data, job.data).resolve())
    place = args.work / "runs" / job.place
    values = overrides(job.algo, job.data, job.steps)
    run = rl.train(
        f"{job.algo}_{job.task}", output_dir=place, seed=job.seed, eval_episodes=1, data=data, **values
    )
    rows = shared.read_table(Path(run.run_dir) / "perf.csv")
    rates = [float(row["perf/updates_per_second"]) for row in rows]
    evaluation = rl.load(run.run_dir, "last").evaluate(job.episodes, seed=job.seed)
    return {
        "return_mean": float(evaluation.returns.mean()),
        "updates_per_s": round(statistics.median(rates[1:]), 1),
        "versions": f"tensorflow {tf.__version__}, gymnasium {gymnasium.__version__}, "
        f"mujoco {mujoco.__version__}, commit {trained.version()}",
    }


def score(task: str, mean: float) -> float:
    """D4RL's normalised score of a mean return: 0 for random actions, 100 for an expert."""
    low, high = REFERENCES[task]
    return 100.0 * (mean - low) / (high - low)


def row_of(job: Job, args: argparse.Namespace) -> dict[str, Any]:
    """Makes a run, and returns its row. Raises RuntimeError where it fails."""
    peak = measured_peak()
    found = measure.run(command(job, args), str(ROOT), environ(), args.wait, args.timeout)
    if "error" in found or "return_mean" not in found:
        raise RuntimeError(f"{job.name}: {found.get('error')}\n{found['output']}")
    made = {name: found[name] for name in ("return_mean", "updates_per_s", "noisy", "versions")}
    found = {"score": round(score(job.task, found["return_mean"]), 2), "peak": f"{peak:.3g}"}
    return job._asdict() | made | found


def measured_peak() -> float:
    """The machine's operations/s, by a process that has as many threads as the runs'."""
    command = [sys.executable, str(Path(arithmetic.__file__))]
    done = subprocess.run(command, env=environ(), capture_output=True, text=True, check=True)
    return float(done.stdout)


def environ() -> dict[str, str]:
    """The processes' environment, the same for all, without what would send them to other libraries."""
    env = dict(os.environ, CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="2")
    for name in ("OMP_NUM_THREADS", "VIRTUAL_ENV", "PYTHONHOME"):
        env.pop(name, None)
    return env


def recorded(args: argparse.Namespace) -> dict[Job, dict[str, Any]]:
    """All results, by what they depend on: those of the table, then those in `--work`; but none that does
    not say all of that."""
    rows = shared.read_table(args.results / "offline_peers.csv")
    rows += [json.loads(path.read_text()) for path in sorted(args.work.glob("*-*-*.json"))]
    return {job_of(row): row for row in rows if row.keys() >= set(Job._fields)}


def job_of(row: dict[str, Any]) -> Job:
    """The run that a result is of; the table's numbers are words."""
    numbers = ("seed", "steps", "episodes", "cpus")
    return Job(**{name: int(row[name]) if name in numbers else row[name] for name in Job._fields})


def cell(values: list[float], digits: int = 1) -> str:
    """The mean over seeds, from 5 on the interquartile mean, and its interval."""
    middle, lower, upper = report.interval(np.array(values))
    return f"{middle:.{digits}f} [{lower:.{digits}f}, {upper:.{digits}f}]"


def verdict(mine: list[float], theirs: list[float]) -> str:
    """How ours stands to theirs: worse or better only where the intervals lie apart."""
    _, lower, upper = report.interval(np.array(mine))
    _, their_lower, their_upper = report.interval(np.array(theirs))
    if upper < their_lower:
        return "**worse**"
    return "better" if lower > their_upper else "no worse"


def at_most(algo: str, data: str, rows: list[dict[str, Any]]) -> float:
    """Updates/s that the machine's arithmetic allows."""
    peak = statistics.median(float(row["peak"]) for row in rows)
    return peak / arithmetic.of_update(algo, *SIZES[data.partition("-")[0]])


INTRODUCTION = """\
# Learning from data, beside d3rlpy

IQL, TD3+BC, ReBRAC and CQL on data of our own agents (`benchmarks/make_data.py`), the same episodes for
both. Scores are D4RL's: 0 is the return of random actions, 100 that of an expert; each seed's is of the
last policy's mean return over episodes on Gymnasium's environment. Brackets are 95 % bootstrap
intervals over seeds ({seeds}). Updates/s are medians over seeds of each run's median, without compilation
and evaluation; both libraries took turns on the same cores of one machine. Ours are the named sets
(`td3_bc_hopper`), d3rlpy has the same networks, batches, rates and penalties
(`benchmarks/peers/d3rlpy_offline.py`); rates stay constant, IQL's too. *At most* is the ratio at which all of
the machine's arithmetic would go into the products of an update's layers and nothing else would take time
(`benchmarks/arithmetic.py`): the fastest product of large matrices just before each run, the median of the
line's runs, through an update's operations.

Ours: {ours}. Theirs: {theirs}.
"""


def of_now(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows whose libraries were told what they are told now."""
    return [row for row in rows if row["settings"] == settings(row["library"], row["algo"], row["data"],
                                                               int(row["steps"]))]  # fmt: skip


def page(rows: list[dict[str, Any]]) -> str:
    """The report of rows of the settings of now: a line for each algorithm and data set that both libraries
    have learned by the same data, steps, episodes and number of cores."""
    alike = ("algo", "data", "steps", "episodes", "cpus", "columns")
    groups: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        sides = groups.setdefault(tuple(str(row[name]) for name in alike), {})
        sides.setdefault(row["library"], []).append(row)
    groups = {key: sides for key, sides in groups.items() if len(sides) == len(LIBRARIES)}
    if not groups:
        return "# Learning from data, beside d3rlpy\n\nNothing has been measured with the settings of now.\n"
    rows = [row for sides in groups.values() for side in sides.values() for row in side]
    lines = ["| algorithm | data | updates | cores | episodes | ours | d3rlpy | result | ours, updates/s | "
             "d3rlpy's | ratio | at most |", "|" + " --- |" * 12]  # fmt: skip
    results, ratios, bounds = [], [], []
    for (algo, data, steps, episodes, cpus, _), sides in sorted(groups.items()):
        scores = {name: [float(row["score"]) for row in sides[name]] for name in LIBRARIES}
        rates = {
            name: statistics.median(float(row["updates_per_s"]) for row in sides[name]) for name in sides
        }
        results.append(verdict(scores["ours"], scores["d3rlpy"]))
        ratios.append(rates["ours"] / rates["d3rlpy"])
        bounds.append(at_most(algo, data, [*sides["ours"], *sides["d3rlpy"]]) / rates["d3rlpy"])
        noisy = sum(str(row["noisy"]) == "True" for name in LIBRARIES for row in sides[name])
        note = f" ({noisy} of the runs were not alone)" if noisy else ""
        shown = [algo, data, f"{int(steps):,}", cpus, episodes,
                 *(cell(scores[name]) for name in LIBRARIES), results[-1],
                 *(f"{rates[name]:.0f}" for name in LIBRARIES), f"{ratios[-1]:.2f}{note}",
                 f"{bounds[-1]:.2f}"]  # fmt: skip
        lines.append(f"| {' | '.join(shown)} |")
    said = {name: "; ".join(sorted({row["versions"] for row in rows if row["library"] == name}))
            for name in LIBRARIES}  # fmt: skip
    seeds = ", ".join(map(str, sorted({int(row["seed"]) for row in rows})))
    head = INTRODUCTION.format(seeds=seeds, ours=said["ours"], theirs=said["d3rlpy"])
    summary = (f"{results.count('**worse**')} of {len(results)} are worse than d3rlpy's; updates/s are "
               f"{min(ratios):.2f} to {max(ratios):.2f} times d3rlpy's, where at most {min(bounds):.2f} to "
               f"{max(bounds):.2f} are possible here.")  # fmt: skip
    return "\n".join([head, summary, "", *lines]) + "\n"


def write_results(args: argparse.Namespace) -> None:
    """Writes the table of all results that are in `--work`, and the page."""
    rows = list(recorded(args).values())
    if not rows:
        raise shared.UsageError(f"there is no result in {args.work} or {args.results}: nothing to report")
    shared.write_table(args.results / "offline_peers.csv", FIELDS, rows)
    shared.write(args.results / "offline_peers.md", page(of_now(rows)))


def arguments() -> argparse.Namespace:
    parser, count, number = shared.parser(__doc__), shared.integer(1), shared.number(0.0)
    add = parser.add_argument
    add("--data", type=Path, default=Path("data"), help="folder of the data sets (default data)")
    add("--peer", default="", metavar="PYTHON", help="of an environment with d3rlpy and gymnasium[mujoco]")
    add("--steps", type=count, default=100_000, help="gradient updates (default 100000)")
    add("--algos", nargs="+", choices=ALGOS, default=ALGOS, metavar="ALGO", help=f"of {', '.join(ALGOS)}")
    add("--sets", nargs="+", choices=SETS, default=SETS, metavar="SET", help=f"of {', '.join(SETS)}")
    add("--seeds", nargs="+", type=shared.integer(0), default=[100, 101, 102])
    add("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    add("--episodes", type=count, default=100)
    add(
        "--cpus",
        nargs="+",
        type=shared.integer(0),
        help="numbers of the cores that everything runs on (default: all)",
    )
    add("--work", type=Path, default=ROOT / "build" / "offline_peers", help="where results and runs are kept")
    add("--results", type=Path, default=report.RESULTS, metavar="DIR")
    add("--wait", type=number, default=0.0, metavar="S", help="longest wait for an idle machine (default 0)")
    add("--timeout", type=number, default=86_400.0, metavar="S", help="longest run (default a day)")
    add("--report", action="store_true", help="only write the table and the page")
    add("--one", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if "d3rlpy" in args.libraries and not (args.peer or args.report or args.one):
        parser.error("--peer PYTHON names an environment with d3rlpy; without one: --libraries ours")
    if args.peer:
        shared.check_program("--peer", args.peer)
    shared.check_cores("--cpus", args.cpus or [])
    return args


def main() -> int:
    args = arguments()
    if args.one:
        print("JSON " + json.dumps(train_and_play(Job(*json.loads(args.one)), args)), flush=True)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the run under way ends, too
    failed = 0
    if not args.report:
        if args.cpus:
            os.sched_setaffinity(0, args.cpus)
        args.work.mkdir(parents=True, exist_ok=True)
        known = recorded(args)
        for job in jobs(args):
            if job in known:
                continue
            print(f"$ {shlex.join(command(job, args))}", flush=True)
            try:
                row = row_of(job, args)
            except RuntimeError as error:
                failed += 1
                print(error, flush=True)
                continue
            shared.write(args.work / f"{job.place}.json", json.dumps(row) + "\n")
            print(f"{job.name}: score {row['score']}, {row['updates_per_s']} updates/s", flush=True)
    write_results(args)
    return 1 if failed else 0


if __name__ == "__main__":
    shared.answer(main)
