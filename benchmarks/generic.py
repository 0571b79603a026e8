"""The generic set of every family on six unlike environments, beside Stable-Baselines3.

    python benchmarks/generic.py                                    # ours, seeds 100 to 104
    python benchmarks/generic.py --peer PEER_PYTHON --families ppo dqn --seconds 3600
    python benchmarks/generic.py --report                           # writes the page anew

`--hparams FAMILY --env ENV` and nothing else: ours has the set's own values but for `train_steps`; the peer
has every default of its algorithm (benchmarks/peers/sb3_generic.py). The last policy plays 100 episodes
without exploration. A row of results/generic.csv is a run; rows that are there, of a set that has not changed
since, are not made again, so an interrupted measurement goes on. Peers and random play are measured once.
The sets' values were chosen with a look at seeds 0 to 9 of FrozenLake, Taxi, CliffWalking, Acrobot,
DictCartPole and IdentityBox; the other environments no choice has seen.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import report  # noqa: E402
import trained  # noqa: E402

from rl.errors import UsageError  # noqa: E402
from rl.hparams.merge import named  # noqa: E402

FIELDS = ("library", "family", "env", "seed", "steps", "mean_return", "seconds", "settings")
HPARAMS = "generic_hparams.json"  # fingerprint -> hparams as they were trained
EPISODES = 100
ENOUGH = 3  # seeds, before an interval says anything

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
    **dict.fromkeys(("vpg", "trpo", "a2c", "ppo", "impala", "appo", "es", "ars"), BOTH),
    **dict.fromkeys(("dqn", "c51", "qrdqn", "iqn", "rainbow", "r2d2", "sac_discrete"), DISCRETE),
    **dict.fromkeys(("ddpg", "td3", "sac"), CONTINUOUS),
}
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
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{ended.stderr[-2000:]}")
    return job._asdict() | json.loads(ended.stdout.strip().splitlines()[-1])


def main() -> int:
    args = arguments()
    if args.one:
        print(json.dumps(train_and_play(Job(*json.loads(args.one)))))
        return 0
    path = Path(args.results) / "generic.csv"
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
        write_page(Path(args.results))
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
    scratch = path.with_suffix(".tmp")
    with scratch.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept)
    scratch.replace(path)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--families", nargs="+", default=list(ENVS), choices=list(ENVS), metavar="FAMILY")
    add("--first_seed", type=int, default=100)
    add("--seeds", type=int, default=5)
    add(
        "--peer",
        default="",
        metavar="PYTHON",
        help="of an environment with Stable-Baselines3 and sb3-contrib",
    )
    add("--peer_only", action="store_true", help="only the peer and random play")
    add("--jobs", type=int, default=1)
    add("--seconds", type=float, default=0.0, help="start no run after so long (default: no limit)")
    add("--report", action="store_true", help="only write the page")
    add("--results", default=str(report.RESULTS), metavar="DIR")
    add("--one", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def write_page(folder: Path) -> None:
    rows, known = report.read_table(folder / "generic.csv"), trained.read(folder, HPARAMS)
    (folder / "generic.md").write_text(page(rows, known))


INTRODUCTION = """\
# Generic sets on unlike environments

`python train.py --hparams FAMILY --env ENV --train_steps STEPS`, nothing else given, beside
Stable-Baselines3's default of the same algorithm (sb3-contrib's for qrdqn, ars and trpo) and random play.
Written by `python benchmarks/generic.py --report` from generic.csv; measured by

    python benchmarks/generic.py --peer PEER_PYTHON

Each number is of the last policies' mean returns over 100 episodes without exploration, with the same starts
for everybody: the mean over seeds (from 5 seeds on the interquartile mean); brackets are its 95 % bootstrap
interval. (Our runs with discrete actions and seeds 100 to 102 played other starts, but for the newest.) A set
*learns* where its interval lies above random play, and is *no worse* than the peer where its interval does
not lie below the peer's. CliffWalking1000 is CliffWalking with a limit of 1,000 steps, which Gymnasium leaves
out.
The sets' values were chosen with a look at seeds 0 to 9 of FrozenLake, Taxi, CliffWalking, Acrobot,
DictCartPole and IdentityBox; the other environments no choice has seen.
"""


def page(rows: list[dict[str, Any]], known: Known) -> str:
    """The report: a table for each family."""
    returns: dict[tuple[str, str, str], list[float]] = {}
    stale, now = set(), {family: settings(family, known) for family in ENVS}
    for row in rows:
        returns.setdefault((row["library"], row["family"], row["env"]), []).append(float(row["mean_return"]))
        if row["library"] == "ours" and row["settings"] != now[row["family"]]:
            stale.add(row["family"])
    lines, learned, worse, cells, few = [], 0, 0, 0, 0
    for family, envs in ENVS.items():
        if not any(("ours", family, env) in returns for env in envs):
            continue
        old = ", **stale**: the set has changed since" if family in stale else ""
        lines += ["", f"## {family}, {steps_of(family):,} steps{old}", ""]
        lines += ["| environment | random | ours | seeds | Stable-Baselines3 | seeds | result |",
                  "|" + " --- |" * 7]  # fmt: skip
        for env in envs:
            mine, theirs, chance = (
                returns.get(key, []) for key in (("ours", family, env), ("sb3", family, env),
                                                 ("random", "random", env))
            )  # fmt: skip
            if not mine:
                continue
            result = verdict(mine, theirs, chance)
            cells, few = cells + 1, few + (result == "too few seeds")
            learned += result.startswith("learns")
            worse += "worse than" in result
            shown = [f"{chance[0]:.1f}" if chance else "", text(mine), str(len(mine)), text(theirs),
                     str(len(theirs) or ""), result]  # fmt: skip
            lines.append(f"| {env} | " + " | ".join(shown) + " |")
    summary = (
        f"{learned} of {cells} pairs of family and environment learn, {worse} of them worse than the peer; "
        f"{few} have fewer than {ENOUGH} seeds as yet, of which nothing is said."
    )
    return "\n".join([INTRODUCTION, summary, *lines]) + "\n"


def text(returns: list[float]) -> str:
    """A statistic of seeds and its interval; empty where there are none."""
    if not returns:
        return ""
    middle, lower, upper = report.interval(np.array(returns))
    return f"{middle:.1f} [{lower:.1f}, {upper:.1f}]"


def verdict(mine: list[float], theirs: list[float], chance: list[float]) -> str:
    """Whether ours learns, and how it stands to the peer; what is not measured is left out."""
    if any(0 < len(each) < ENOUGH for each in (mine, theirs)):
        return "too few seeds"
    _, lower, upper = report.interval(np.array(mine))
    parts = []
    if chance:
        parts.append("learns" if lower > chance[0] else "**not above random play**")
    if theirs:
        _, their_lower, their_upper = report.interval(np.array(theirs))
        if upper < their_lower:
            parts.append("**worse than** the peer")
        else:
            parts.append("better" if lower > their_upper else "no worse")
    return ", ".join(parts)


if __name__ == "__main__":
    sys.exit(main())
