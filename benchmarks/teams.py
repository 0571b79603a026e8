"""Teams of agents beside another library's same algorithm: mean returns after the same steps.

    python benchmarks/teams.py --tasks spread --benchmarl PEER_PYTHON
    python benchmarks/teams.py --tasks foraging tag --epymarl PEER_PYTHON --checkout EPYMARL
    python benchmarks/teams.py --libraries ours --algos mappo     # ours alone, all tasks
    python benchmarks/teams.py --report                           # writes the page anew

Seeds 100 to 104 unless `--seeds` says fewer. `spread` is simple_spread, beside BenchMARL: three agents,
episodes of 25 steps; ours play `SimpleSpread-v0`, whose steps are those of `mpe2`'s simple_spread_v3, the
peer PettingZoo's. `foraging` is level-based foraging, beside EPyMARL: 8 x 8 cells, two players, three pieces
of food, 50 steps, without action masks, which the peer's environment does not have. `tag` is simple_tag,
beside EPyMARL too: three hunters, and the prey that this library brings (benchmarks/hunt.py).

Ours are named sets with `train_steps` and little else changed: on spread maddpg has continuous actions, since
BenchMARL's has no others, and exploration of qmix and vdn falls over the steps over which the peer's does.
The peers have all their defaults (benchmarks/peers/). The last policy plays 100 episodes without exploration,
of mappo and ippo beside EPyMARL by sampled actions, as it does; a return is the sum of the team's. A row of
results/teams.csv is a run; rows that are there, of settings that have not changed since, are not made again,
so an interrupted measurement goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
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
from shared import PREY, ROOT, UsageError

from rl.hparams.merge import resolve

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

FIELDS = ("task", "library", "algo", "seed", "steps", "mean_return", "seconds", "settings")
ALGOS = ("mappo", "ippo", "qmix", "vdn", "maddpg")
EPISODES = 100
PEERS = ROOT / "benchmarks" / "peers"


class Task(NamedTuple):
    """What both sides learn, and beside whom."""

    peer: str  # a library, with a script of its name in benchmarks/peers
    steps: int  # of the environment; each is one of every agent
    shown: str  # its name on the page
    library: str  # the peer's name on the page
    about: str  # for the page
    decimals: int = 1  # of returns


SPREAD = """\
* simple_spread, three agents, episodes of 25 steps: `mappo_spread` and so on beside BenchMARL's. Actions of
  maddpg are continuous, others discrete; for qmix and vdn epsilon falls over a third of the steps on both
  sides.
"""
FORAGING = """\
* Foraging-8x8-2p-3f, two players, three pieces of food, 50 steps, of which the best return is 1: `mappo` and
  so on, which are made for any environment, beside EPyMARL's.
"""
TAG = """\
* simple_tag, three hunters whose prey plays the policy that EPyMARL brings, episodes of 25 steps, 30 for each
  catch: `mappo` and so on, which are made for any environment, beside EPyMARL's.
"""
TASKS = {
    "spread": Task("benchmarl", 60_000, "simple_spread", "BenchMARL", SPREAD),
    "foraging": Task("epymarl", 100_000, "Foraging-8x8-2p-3f", "EPyMARL", FORAGING, 2),
    "tag": Task("epymarl", 100_000, "simple_tag", "EPyMARL", TAG),
}
LIBRARIES = ("ours", *dict.fromkeys(task.peer for task in TASKS.values()))


class Job(NamedTuple):
    """One training run, and what identifies its row."""

    task: str
    library: str
    algo: str
    seed: int
    steps: int
    settings: str  # a hash: of our set's values, or of the peer's script

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(map(str, self))


def ours(task: str, algo: str, steps: int) -> tuple[str, dict[str, Any]]:
    """Our set for a task, and what it is given."""
    found: dict[str, Any] = {"train_steps": steps, "eval_period": 0}
    if TASKS[task].peer == "epymarl" and algo in ("mappo", "ippo"):  # it samples wherever it plays
        found["eval_policy"] = "sample"
    if task == "foraging":  # the peer's environment tells nobody what is legal
        return algo, found | {"env": "Foraging-v0", "env_kwargs": {"action_masks": False}}
    if task == "tag":
        return algo, found | {"env": "Hunt-v0"}
    if algo == "maddpg":
        found["env_kwargs"] = {"continuous_actions": True}
    if algo in ("qmix", "vdn"):  # epsilon falls over a third of the run, as BenchMARL's does
        found["exploration_steps"] = steps // 3
    return f"{algo}_spread", found


def script(library: str) -> Path:
    """The file that runs a peer."""
    return PEERS / f"{library}_teams.py"


def settings(task: str, library: str, algo: str, steps: int) -> str:
    """A fingerprint of what a library is told."""
    if library == "ours":
        return trained.fingerprint(resolve(*ours(task, algo, steps)))
    return hashlib.sha256(script(library).read_bytes()).hexdigest()[: trained.LENGTH]


def jobs(tasks: list[str], libraries: list[str], algos: list[str], seeds: list[int]) -> list[Job]:
    """All runs, seed by seed, the libraries in turn."""
    found = []
    for task in tasks:
        sides, steps = [each for each in libraries if each in ("ours", TASKS[task].peer)], TASKS[task].steps
        marks = {(each, algo): settings(task, each, algo, steps) for algo in algos for each in sides}
        found += [
            Job(task, library, algo, seed, steps, marks[library, algo])
            for seed in seeds
            for algo in algos
            for library in sides
        ]
    return found


def train_and_play(job: Job) -> dict[str, float]:
    """Trains one of our sets in this process; returns what the peers' scripts print."""
    from rl.imports import import_tensorflow

    import_tensorflow()  # as the command line does, so that XLA computes as in train.py
    import rl

    if job.task == "tag":
        import hunt  # noqa: F401  registers its environment

    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        name, told = ours(job.task, job.algo, job.steps)
        rl.train(name, output_dir=folder, seed=job.seed, eval_episodes=1, **told)
        seconds = time.perf_counter() - begun
        returns = rl.load(folder, "last").evaluate(EPISODES, seed=job.seed).returns
    return {"mean_return": round(float(returns.mean()), 4), "seconds": round(seconds, 1)}


def run(job: Job, programs: dict[str, list[str]]) -> dict[str, Any]:
    """The row of a job, made in a process of its own. Raises RuntimeError when that fails."""
    if job.library == "ours":
        command = [sys.executable, __file__, "--one", json.dumps(job)]
    else:
        words = {"algo": job.algo, "seed": job.seed, "steps": job.steps, "episodes": EPISODES}
        if job.library == "epymarl":
            words["task"] = job.task
        python, *more = programs[job.library]
        command = [python, str(script(job.library)), *(f"--{name}={value}" for name, value in words.items())]
        command += more
    return job._asdict() | generic.printed(command)


def make_prey(args: argparse.Namespace) -> None:
    """Makes the file of the prey's policy, where there is none. Raises UsageError where none can be made."""
    if PREY.is_file():
        return
    if not args.epymarl:
        raise UsageError(f"there is no {PREY}: --epymarl PYTHON --checkout DIR make it, for the task tag")
    words = [f"--checkout={args.checkout}", f"--file={PREY}"]
    subprocess.run([args.epymarl, str(PEERS / "epymarl_prey.py"), *words], check=True)


def main() -> int:
    args = arguments()
    if args.one:
        print(json.dumps(train_and_play(Job(*json.loads(args.one)))))
        return 0
    if "tag" in args.tasks and not args.report:
        make_prey(args)
    path, failed = args.results / "teams.csv", 0
    todo = [] if args.report else jobs(args.tasks, args.libraries, args.algos, list(JUDGED)[: args.seeds])
    for job in todo:
        rows = report.read_table(path)
        if job.key in {tuple(row[name] for name in Job._fields) for row in rows}:
            continue
        try:
            row = run(job, programs_of(args))
        except RuntimeError as error:
            failed += 1
            print(error, flush=True)
            continue
        rows = report.read_table(path)  # other seeds may have been measured meanwhile
        kept = [each for each in rows if any(each[name] != str(row[name]) for name in Job._fields[:-1])]
        kept.append({name: str(row[name]) for name in FIELDS})
        kept.sort(key=lambda each: (*(each[name] for name in ("task", "algo", "library")), int(each["seed"])))
        shared.write_table(path, FIELDS, kept)
        print(*(f"{name}={row[name]}" for name in FIELDS[:-1]), flush=True)
    rows = report.read_table(path)
    if not rows:
        raise UsageError(f"there is no teams.csv in {args.results}: nothing to report")
    shared.write(args.results / "teams.md", page(rows))
    return 1 if failed else 0


INTRODUCTION = """\
# Teams beside other libraries

Our named sets beside another library's same algorithm with its defaults, after the same steps of the same
environment, on one machine. Written by `python benchmarks/teams.py --report` from teams.csv; measured by

    python benchmarks/teams.py --benchmarl PEER_PYTHON --epymarl PEER_PYTHON --checkout EPYMARL

{tasks}
Each number is of the last policies' mean returns over 100 episodes without exploration (beside EPyMARL,
which samples wherever it plays, actions of mappo and ippo are sampled on both sides), a return being the sum
of the agents': the mean over seeds (from 5 seeds on the interquartile mean); brackets are its 95 %
bootstrap interval. Ours is *no worse* where its interval does not lie below the peer's; of fewer than 3 seeds
nothing is said. No value was chosen by these seeds. Seconds are medians of whole trainings, which did not run
alone: speed is in speed.md.
"""


def page(rows: list[dict[str, str]]) -> str:
    """The report: a line for each task and algorithm."""
    lines = ["| task | algorithm | steps | ours | seeds | peer | | seeds | result | ours, s | peer, s |",
             "|" + " --- |" * 11]  # fmt: skip
    now = [row for row in rows if row["settings"] == settings(*(row[name] for name in Job._fields[:3]),
                                                              int(row["steps"]))]  # fmt: skip
    for name, algo, steps in sorted({(row["task"], row["algo"], int(row["steps"])) for row in now}):
        task = TASKS[name]
        here = [row for row in now if (row["task"], row["algo"], row["steps"]) == (name, algo, str(steps))]
        sides = [[row for row in here if row["library"] == each] for each in ("ours", task.peer)]
        mine, theirs = ([float(row["mean_return"]) for row in side] for side in sides)
        spent = [sorted(float(row["seconds"]) for row in side) for side in sides]
        mean, peers = (generic.text(each, task.decimals) for each in (mine, theirs))
        shown = [task.shown, algo, f"{steps:,}", mean, str(len(mine)), task.library]
        shown += [peers, str(len(theirs) or ""), generic.verdict(mine, theirs, [])]
        shown += [f"{each[len(each) // 2]:.0f}" if each else "" for each in spent]
        lines.append(f"| {' | '.join(shown)} |")
    about = "".join(task.about for name, task in TASKS.items() if any(row["task"] == name for row in now))
    return "\n".join([INTRODUCTION.format(tasks=about), *lines]) + "\n"


def arguments() -> argparse.Namespace:
    parser, count = shared.parser(__doc__), shared.integer(1)
    add = parser.add_argument
    add("--tasks", nargs="+", choices=TASKS, default=list(TASKS), help="default: all")
    add("--algos", nargs="+", choices=ALGOS, default=ALGOS, metavar="ALGO", help=f"of {', '.join(ALGOS)}")
    add("--seeds", type=count, default=len(JUDGED), help=f"how many, from {JUDGED[0]} on (default all)")
    add("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    add("--benchmarl", default="", metavar="PYTHON", help="of an environment with BenchMARL")
    add("--epymarl", default="", metavar="PYTHON", help="of an environment with what EPyMARL needs")
    add("--checkout", default="", metavar="DIR", help="of EPyMARL's sources")
    add("--report", action="store_true", help="only write the page")
    add("--results", type=Path, default=report.RESULTS, metavar="DIR")
    add("--one", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.seeds > len(JUDGED):
        raise UsageError(f"--seeds {args.seeds}: sets are judged by {JUDGED[0]} to {JUDGED[-1]} alone")
    for library, (program, *_) in programs_of(args).items():
        wanted = library in args.libraries and library in {TASKS[each].peer for each in args.tasks}
        if wanted and not (program or args.report or args.one):
            raise UsageError(
                f"--{library} PYTHON names an environment with it; without one: --libraries ours"
            )
        if program:
            shared.check_program(f"--{library}", program)
    if args.epymarl and not (Path(args.checkout) / "src" / "run.py").is_file():
        raise UsageError(f"--checkout {args.checkout or 'DIR'}: there is no src/run.py of EPyMARL in it")
    return args


def programs_of(args: argparse.Namespace) -> dict[str, list[str]]:
    """The Python of each peer, and what else its script is told."""
    return {"benchmarl": [args.benchmarl], "epymarl": [args.epymarl, f"--checkout={args.checkout}"]}


if __name__ == "__main__":
    shared.answer(main)
