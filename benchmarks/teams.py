"""Teams of agents on simple_spread, beside BenchMARL's same algorithm: mean returns after the same steps.

    python benchmarks/teams.py --peer PEER_PYTHON                 # seeds 100 to 104 of all
    python benchmarks/teams.py --algos mappo --libraries ours     # ours alone
    python benchmarks/teams.py --report                           # writes the page anew

Ours are the named sets (`mappo_spread` and so on) with `train_steps` and little else changed: maddpg has
continuous actions, since BenchMARL's has no others, and exploration of qmix and vdn ends after a third of the
steps, as BenchMARL's does. The peer has all its defaults (benchmarks/peers/benchmarl_teams.py).
Three agents, episodes of 25 steps; ours play `SimpleSpread-v0`, whose steps are those of `mpe2`'s
simple_spread_v3, the peer PettingZoo's. The last policy plays 100 episodes without exploration; a return is
the sum of the team's. A row of results/teams.csv is a run; rows that are there, of settings that have not
changed since, are not made again, so an interrupted measurement goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import generic
import report
import shared
import trained
from bars import JUDGED
from shared import ROOT, UsageError

from rl.hparams.merge import resolve

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

FIELDS = ("library", "algo", "seed", "steps", "mean_return", "seconds", "settings")
ALGOS = ("mappo", "ippo", "qmix", "vdn", "maddpg")
LIBRARIES = ("ours", "benchmarl")
EPISODES = 100
PEER = ROOT / "benchmarks" / "peers" / "benchmarl_teams.py"


class Job(NamedTuple):
    """One training run, and what identifies its row."""

    library: str
    algo: str
    seed: int
    steps: int  # of the environment; each is one of every agent
    settings: str  # a hash: of our set's values, or of the peer's script

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(map(str, self))


def overrides(algo: str, steps: int) -> dict[str, Any]:
    """What our named set is given."""
    found: dict[str, Any] = {"train_steps": steps, "eval_period": 0}
    if algo == "maddpg":
        found["env_kwargs"] = {"continuous_actions": True}
    if algo in ("qmix", "vdn"):  # epsilon falls over a third of the run, as BenchMARL's does
        found["exploration_steps"] = steps // 3
    return found


def settings(library: str, algo: str, steps: int) -> str:
    """A fingerprint of what a library is told."""
    if library == "ours":
        return trained.fingerprint(resolve(f"{algo}_spread", overrides(algo, steps)))
    return hashlib.sha256(PEER.read_bytes()).hexdigest()[: trained.LENGTH]


def jobs(libraries: list[str], algos: list[str], seeds: list[int], steps: int) -> list[Job]:
    """All runs, seed by seed, the libraries in turn."""
    marks = {(each, algo): settings(each, algo, steps) for algo in algos for each in libraries}
    return [
        Job(library, algo, seed, steps, marks[library, algo])
        for seed in seeds
        for algo in algos
        for library in libraries
    ]


def train_and_play(job: Job) -> dict[str, float]:
    """Trains one of our sets in this process; returns what the peer's script prints."""
    from rl.imports import import_tensorflow

    import_tensorflow()  # as the command line does, so that XLA computes as in train.py
    import rl

    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        told = overrides(job.algo, job.steps)
        rl.train(f"{job.algo}_spread", output_dir=folder, seed=job.seed, eval_episodes=1, **told)
        seconds = time.perf_counter() - begun
        returns = rl.load(folder, "last").evaluate(EPISODES, seed=job.seed).returns
    return {"mean_return": round(float(returns.mean()), 2), "seconds": round(seconds, 1)}


def run(job: Job, peer: str) -> dict[str, Any]:
    """The row of a job, made in a process of its own. Raises RuntimeError when that fails."""
    if job.library == "ours":
        command = [sys.executable, __file__, "--one", json.dumps(job)]
    else:
        words = {"algo": job.algo, "seed": job.seed, "steps": job.steps, "episodes": EPISODES}
        command = [peer, str(PEER), *(f"--{name}={value}" for name, value in words.items())]
    return job._asdict() | generic.printed(command)


def main() -> int:
    args = arguments()
    if args.one:
        print(json.dumps(train_and_play(Job(*json.loads(args.one)))))
        return 0
    path, failed = args.results / "teams.csv", 0
    todo = [] if args.report else jobs(args.libraries, args.algos, list(JUDGED)[: args.seeds], args.steps)
    for job in todo:
        rows = report.read_table(path)
        if job.key in {tuple(row[name] for name in Job._fields) for row in rows}:
            continue
        try:
            row = run(job, args.peer)
        except RuntimeError as error:
            failed += 1
            print(error, flush=True)
            continue
        kept = [each for each in rows if any(each[name] != str(row[name]) for name in Job._fields[:-1])]
        kept.append({name: str(row[name]) for name in FIELDS})
        kept.sort(key=lambda each: (each["algo"], each["library"], int(each["steps"]), int(each["seed"])))
        shared.write_table(path, FIELDS, kept)
        print(*(f"{name}={row[name]}" for name in FIELDS[:-1]), flush=True)
    rows = report.read_table(path)
    if not rows:
        raise UsageError(f"there is no teams.csv in {args.results}: nothing to report")
    shared.write(args.results / "teams.md", page(rows))
    return 1 if failed else 0


INTRODUCTION = """\
# Teams beside BenchMARL

simple_spread with three agents and episodes of 25 steps: our named sets (`mappo_spread` and so on) beside
BenchMARL's same algorithm with its defaults, after the same steps of the environment, on one machine. Actions
of maddpg are continuous, others discrete; for qmix and vdn epsilon falls over a third of the steps on both
sides. Written by `python benchmarks/teams.py --report` from teams.csv; measured by

    python benchmarks/teams.py --peer PEER_PYTHON

Each number is of the last policies' mean returns over 100 episodes without exploration, a return being the
sum of the three agents': the mean over seeds (from 5 seeds on the interquartile mean); brackets are its 95 %
bootstrap interval. Ours is *no worse* where its interval does not lie below the peer's; of fewer than 3 seeds
nothing is said. No value was chosen by these seeds. Seconds are medians of whole trainings, which did not run
alone: speed is in speed.md.
"""


def page(rows: list[dict[str, str]]) -> str:
    """The report: a line for each algorithm and number of steps."""
    lines = ["| algorithm | steps | ours | seeds | BenchMARL | seeds | result | ours, s | BenchMARL, s |",
             "|" + " --- |" * 9]  # fmt: skip
    mine = [
        row for row in rows if row["settings"] == settings(row["library"], row["algo"], int(row["steps"]))
    ]
    for algo, steps in sorted({(row["algo"], int(row["steps"])) for row in mine}):
        here = [row for row in mine if (row["algo"], row["steps"]) == (algo, str(steps))]
        found = [[float(row["mean_return"]) for row in here if row["library"] == each] for each in LIBRARIES]
        spent = [[float(row["seconds"]) for row in here if row["library"] == each] for each in LIBRARIES]
        ours, theirs = found
        shown = [algo, f"{steps:,}", generic.text(ours), str(len(ours)), generic.text(theirs)]
        shown += [str(len(theirs) or ""), generic.verdict(ours, theirs, [])]
        shown += [f"{sorted(each)[len(each) // 2]:.0f}" if each else "" for each in spent]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join([INTRODUCTION, *lines]) + "\n"


def arguments() -> argparse.Namespace:
    parser, count = shared.parser(__doc__), shared.integer(1)
    add = parser.add_argument
    add("--algos", nargs="+", choices=ALGOS, default=ALGOS, metavar="ALGO", help=f"of {', '.join(ALGOS)}")
    add("--steps", type=count, default=60_000, help="of the environment (default 60000)")
    add("--seeds", type=count, default=len(JUDGED), help=f"how many, from {JUDGED[0]} on (default all)")
    add("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    add("--peer", default="", metavar="PYTHON", help="of an environment with BenchMARL")
    add("--report", action="store_true", help="only write the page")
    add("--results", type=Path, default=report.RESULTS, metavar="DIR")
    add("--one", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.seeds > len(JUDGED):
        raise UsageError(f"--seeds {args.seeds}: sets are judged by {JUDGED[0]} to {JUDGED[-1]} alone")
    if "benchmarl" in args.libraries and not (args.peer or args.report or args.one):
        raise UsageError("--peer PYTHON names an environment with BenchMARL; without one: --libraries ours")
    if args.peer:
        shared.check_program("--peer", args.peer)
    return args


if __name__ == "__main__":
    shared.answer(main)
