"""The generic set of every family on six unlike environments, beside Stable-Baselines3.

    python benchmarks/generic.py                                    # ours, seeds 100 to 104
    python benchmarks/generic.py --peer PEER_PYTHON --families ppo dqn --seconds 3600
    python benchmarks/generic.py --report                           # writes the page anew

`--hparams FAMILY --env ENV` and nothing else: ours has the set's own values but for `train_steps`; the peer
has every default of its algorithm (benchmarks/peers/sb3_generic.py). Seeds are the judging ones, 100 to 104;
others are refused. The last policy plays 100 episodes without exploration. A row of results/generic.csv is a
run; rows that are there, of a set that has not changed since, are not made again, so an interrupted
measurement goes on. Peers and random play are measured once.
The sets' values were chosen with a look at seeds 0 to 9 of FrozenLake, Taxi, CliffWalking, Acrobot,
DictCartPole and IdentityBox; the other environments no choice has seen.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import report
import shared
import trained
from bars import JUDGED
from shared import ROOT, UsageError

from rl.hparams.merge import named

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

FIELDS = ("library", "family", "env", "seed", "steps", "mean_return", "seconds", "settings")
HPARAMS = "generic_hparams.json"  # fingerprint -> hparams as they were trained
EPISODES = 100
ENOUGH = 3  # seeds, before an interval says anything
FEW, BETTER, NO_WORSE, WORSE = "too few seeds", "better", "no worse", "**worse than** the peer"

COMMON = ("FrozenLake-v1", "Taxi-v4", "CliffWalking1000-v0", "Acrobot-v1", "DictCartPole-v0")
DISCRETE = (*COMMON, "LunarLander-v3")
BOTH = (*COMMON, "IdentityBox-v0")
CONTINUOUS = (
    "IdentityBox-v0",
    "DictPendulum-v0",
    "InvertedPendulum-v5",
    "InvertedDoublePendulum-v5",
    "Reacher-v5",
    "LunarLanderContinuous-v3",
)
ENVS = {
    **dict.fromkeys(("vpg", "trpo", "a2c", "ppo", "ppg", "impala", "appo", "vmpo", "es", "ars"), BOTH),
    **dict.fromkeys(("dqn", "c51", "qrdqn", "iqn", "rainbow", "r2d2", "pqn", "sac_discrete"), DISCRETE),
    **dict.fromkeys(("ddpg", "td3", "sac", "tqc"), CONTINUOUS),
}
IDLE = {"Taxi-v4": -200.0, "CliffWalking1000-v0": -1000.0}  # of a policy that moves against a wall to the end
PEERS = ("ppo", "a2c", "ars", "trpo", "dqn", "sac", "td3", "ddpg", "qrdqn")  # that have our algorithm


class Job(NamedTuple):
    """One training run, and what identifies its row."""

    library: str  # "ours", "sb3" or "random"
    family: str
    env: str
    seed: int
    steps: int
    settings: str  # of ours: the fingerprint of the set's values

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(map(str, (self.library, self.family, self.env, self.seed, self.steps, self.settings)))


def steps_of(family: str) -> int:
    """100,000 environment steps, the default of `train_steps`; 20,000 where each step is an update of large
    networks."""
    return 20_000 if ENVS[family] is CONTINUOUS else 100_000


Known = dict[str, trained.Values]
Returns = dict[tuple[str, str, str], list[float]]  # of library, family and environment, by seed


def settings(family: str, known: Known) -> str:
    """A fingerprint of the set's values: one that is known where all that differs are hparams that came
    later and have their defaults."""
    now = trained.values(named(family))
    return next((mark for mark, then in known.items() if same(then, now)), trained.fingerprint(now))


def same(then: trained.Values, now: trained.Values) -> bool:
    try:
        return trained.revived(then) == now
    except UsageError:  # of hparams that are no more
        return False


def jobs(libraries: list[str], families: list[str], seeds: list[int], known: Known) -> list[Job]:
    """All runs, seed by seed, so that an early end leaves few seeds of everything."""
    found = []
    marks = {family: settings(family, known) for family in families}
    for seed in seeds:
        for library in libraries:
            for family in families if library != "sb3" else [each for each in PEERS if each in families]:
                mark = marks[family] if library == "ours" else ""
                found += [Job(library, family, env, seed, steps_of(family), mark) for env in ENVS[family]]
    return found


def train_and_play(job: Job) -> dict[str, float]:
    """Trains one of our sets in this process; returns the mean return of its last policy."""
    import rl
    from benchmarks import generic_envs

    begun = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rl.train(job.family, output_dir=folder, seed=job.seed, env=job.env, train_steps=job.steps)
        seconds = time.perf_counter() - begun
        policy = rl.load(folder, "last")

        def act(observation: Any, info: dict[str, Any]) -> Any:
            return policy(observation, action_mask=info.get("action_mask"))

        returns = generic_envs.play(job.env, act, EPISODES, policy.reset)
    return {"mean_return": round(float(returns.mean()), 2), "seconds": round(seconds, 1)}


def run(job: Job, peer: str) -> dict[str, Any]:
    """The row of a job, made in a process of its own. Raises RuntimeError when that fails."""
    if job.library == "ours":
        command = [sys.executable, __file__, "--one", json.dumps(job)]
    else:
        algo = "random" if job.library == "random" else job.family
        command = [peer, str(ROOT / "benchmarks" / "peers" / "sb3_generic.py"), "--algo", algo,
                   "--env", job.env, "--seed", str(job.seed), "--steps", str(job.steps)]  # fmt: skip
    return job._asdict() | printed(command)


def printed(command: list[str]) -> dict[str, Any]:
    """The fields of the line of JSON that a command prints last. Raises RuntimeError where it fails."""
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=shared.ENVIRON)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found


def main() -> int:
    args = arguments()
    if args.one:
        print(json.dumps(train_and_play(Job(*json.loads(args.one)))))
        return 0
    path = args.results / "generic.csv"
    seeds = list(range(args.first_seed, args.first_seed + args.seeds))
    libraries = ["ours", *(["sb3"] if args.peer else [])] if not args.peer_only else ["sb3"]
    known = trained.read(path.parent, HPARAMS)
    todo = [] if args.report else jobs(libraries, args.families, seeds, known)
    if args.peer and not args.report:
        every = dict.fromkeys(env for family in args.families for env in ENVS[family])
        todo = [Job("random", "random", env, seeds[0], 0, "") for env in every] + todo
    done = {tuple(row[each] for each in ("library", "family", "env", "seed", "steps", "settings"))
            for row in report.read_table(path)}  # fmt: skip
    todo = [job for job in todo if job.key not in done]
    lock, begun, failed = Lock(), time.monotonic(), []

    def make(job: Job) -> None:
        if args.seconds and time.monotonic() - begun > args.seconds:
            return
        try:
            row = run(job, args.peer)
        except RuntimeError as error:
            failed.append(job)
            print(error, flush=True)
            return
        with lock:
            add_row(path, row)
            print(*(f"{name}={row[name]}" for name in FIELDS[:-1]), flush=True)

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(make, todo))
    if not args.peer_only:
        write_page(args.results)
    return 1 if failed else 0


def add_row(path: Path, row: dict[str, Any]) -> None:
    """Adds a row, in place of one of the same run with other settings."""
    same = ("library", "family", "env", "seed", "steps")
    rows = report.read_table(path)
    kept = [each for each in rows if any(str(each[name]) != str(row[name]) for name in same)]
    kept.append(row)
    kept.sort(key=lambda each: (each["family"], each["env"], each["library"], int(each["seed"])))
    marks = list(dict.fromkeys(each["settings"] for each in kept if each["settings"]))
    if row["library"] == "ours":
        now = trained.values(named(row["family"]))
        trained.write(path.parent, {trained.fingerprint(now): now}, marks, HPARAMS)
    shared.write_table(path, FIELDS, kept)


def arguments() -> argparse.Namespace:
    parser = shared.parser(__doc__)
    add = parser.add_argument
    add("--families", nargs="+", default=list(ENVS), choices=list(ENVS), metavar="FAMILY")
    add("--first_seed", type=shared.integer(0), default=JUDGED[0])
    add("--seeds", type=shared.integer(1), default=len(JUDGED))
    add(
        "--peer",
        default="",
        metavar="PYTHON",
        help="of an environment with Stable-Baselines3 and sb3-contrib",
    )
    add("--peer_only", action="store_true", help="only the peer and random play")
    add("--jobs", type=shared.integer(1), default=1)
    text = "start no run after so long (default: no limit)"
    add("--seconds", type=shared.number(0.0), default=0.0, help=text)
    add("--report", action="store_true", help="only write the page")
    add("--results", type=Path, default=report.RESULTS, metavar="DIR")
    add("--one", default="", help=argparse.SUPPRESS)
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    if not set(seeds) <= set(JUDGED):
        alone = f"sets are judged by {JUDGED[0]} to {JUDGED[-1]} alone"
        raise UsageError(f"seeds {seeds[0]} to {seeds[-1]}: {alone}")
    if args.peer_only and not args.peer:
        raise UsageError("--peer_only measures the peer: --peer PYTHON names its environment")
    if args.peer:
        shared.check_program("--peer", args.peer)
    return args


def write_page(folder: Path) -> None:
    rows, known = report.read_table(folder / "generic.csv"), trained.read(folder, HPARAMS)
    if not rows:
        raise UsageError(f"there is no generic.csv in {folder}: nothing to report")
    shared.write(folder / "generic.md", page(rows, known))


INTRODUCTION = f"""\
# Generic sets on unlike environments

`python train.py --hparams FAMILY --env ENV --train_steps STEPS`, nothing else given, beside
Stable-Baselines3's default of the same algorithm (sb3-contrib's for qrdqn, ars and trpo) and random play.
Written by `python benchmarks/generic.py --report` from generic.csv; measured by

    python benchmarks/generic.py --peer PEER_PYTHON

Each number is of the last policies' mean returns over 100 episodes without exploration, with the same starts
for everybody: the mean over seeds (from 5 seeds on the interquartile mean); brackets are its 95 % bootstrap
interval. (Our runs with discrete actions and seeds 100 to 102 played other starts, but for the newest.) A set
*learns* where its interval lies above random play, and above what standing still brings (-200 in Taxi, -1000
in CliffWalking, where random play falls), and is *no worse* than the peer where its interval does
not lie below the peer's; of fewer than {ENOUGH} seeds, of ours or of the peer, nothing is said. In Taxi ours
sees `action_mask`, which names the moves that do something, and Stable-Baselines3 does not. CliffWalking1000
is CliffWalking with a limit of 1,000 steps, which Gymnasium leaves out.
The sets' values were chosen with a look at seeds 0 to 9 of FrozenLake, Taxi, CliffWalking, Acrobot,
DictCartPole and IdentityBox; the other environments no choice has seen.
PPO is the exception: what seed 100 brought had its learning rate looked at once more, so 101 to 104 alone
are unseen there. QR-DQN is another: one of seeds 100 to 102 had stood still in CliffWalking, so it was given
normalised rewards, with a look at seeds 0 to 3; 103 and 104 alone are unseen there.
"""


def of_now(rows: list[dict[str, Any]], known: Known) -> tuple[Returns, Counter[str]]:
    """Returns of the steps, values and judging seeds of now; by family, how many of ours are of others."""
    now = {family: settings(family, known) for family in ENVS}
    found: Returns = {}
    older: Counter[str] = Counter()
    for row in rows:
        library, family = row["library"], row["family"]
        if library != "random" and family not in now:
            continue
        right = library == "random" or int(row["steps"]) == steps_of(family)
        right &= library != "ours" or row["settings"] == now[family]
        if right and int(row["seed"]) in JUDGED:
            found.setdefault((library, family, row["env"]), []).append(float(row["mean_return"]))
        elif library == "ours":
            older[family] += 1
    return found, older


def page(rows: list[dict[str, Any]], known: Known) -> str:
    """The report: a table for each family."""
    returns, older = of_now(rows, known)
    lines, results = [], []
    for family, envs in ENVS.items():
        mine = [env for env in envs if ("ours", family, env) in returns]
        if not mine and not older[family]:
            continue
        old = f"; runs of **other values** than now, left out: {older[family]}" if older[family] else ""
        lines += ["", f"## {family}, {steps_of(family):,} steps{old}", ""]
        lines += ["| environment | random | ours | seeds | Stable-Baselines3 | seeds | result |",
                  "|" + " --- |" * 7]  # fmt: skip
        for env in mine:
            keys = (("ours", family, env), ("sb3", family, env), ("random", "random", env))
            ours, theirs, chance = (returns.get(key, []) for key in keys)
            results.append(verdict(ours, theirs, chance, IDLE.get(env)))
            shown = [f"{chance[0]:.1f}" if chance else "", text(ours), str(len(ours)), text(theirs),
                     str(len(theirs) or ""), results[-1]]  # fmt: skip
            lines.append(f"| {env} | " + " | ".join(shown) + " |")
    return "\n".join([INTRODUCTION, summary(results), *lines]) + "\n"


def summary(results: list[str]) -> str:
    """How many pairs learn, and how they stand to the peer."""
    judged = [each for each in results if each != FEW]
    learned = sum(each.startswith("learns") for each in judged)
    compared = sum(each.endswith((BETTER, NO_WORSE, WORSE)) for each in judged)
    worse = sum(each.endswith(WORSE) for each in judged)
    return (
        f"{learned} of {len(judged)} pairs of family and environment that have {ENOUGH} seeds or more learn; "
        f"{len(results) - len(judged)} more have fewer. Compared with a peer by {ENOUGH} seeds or more: "
        f"{compared}, {worse} of them worse."
    )


def text(returns: list[float], decimals: int = 1) -> str:
    """A statistic of seeds and its interval; empty where there are none."""
    if not returns:
        return ""
    middle, lower, upper = report.interval(np.array(returns))
    shown, low, high = (f"{each:.{decimals}f}" for each in (middle, lower, upper))
    return f"{shown} [{low}, {high}]"


def verdict(mine: list[float], theirs: list[float], chance: list[float], idle: float | None = None) -> str:
    """Whether ours learns, by our seeds alone, and how it stands to the peer; what is not measured, or by too
    few of the peer's seeds, is left out.

    idle: what standing still brings, where that is more than random play does.
    """
    if len(mine) < ENOUGH:
        return FEW
    _, lower, upper = report.interval(np.array(mine))
    parts = []
    if chance:
        still = idle is not None and lower <= idle
        above = "**not above standing still**" if still else "learns"
        parts.append(above if lower > chance[0] else "**not above random play**")
    if len(theirs) >= ENOUGH:
        _, their_lower, their_upper = report.interval(np.array(theirs))
        if upper < their_lower:
            parts.append(WORSE)
        else:
            parts.append(BETTER if lower > their_upper else NO_WORSE)
    return ", ".join(parts)


if __name__ == "__main__":
    shared.answer(main)
