"""Kills workers, buffers and nodes of a Ray cluster at random while a run uses it: what comes of the run?

    python benchmarks/endurance.py --kills 10 --train_steps 200000   # one takes a whole node; then to the bar
    python benchmarks/endurance.py --minutes 30 --train_steps 10000000  # all the time; memory of all

The cluster (a head and two nodes, `ray.cluster_utils.Cluster`) and the run (`train.py`, as it is typed) are
processes of this machine. When the run has ended it must have said of each worker that was killed that it was
replaced, must have reached the bar of its set (bars.py; 100 episodes of the last checkpoint), and
neither from it nor from the cluster may a process be left. With `--minutes` the run is asked to stop at
their end, and memory is sampled meanwhile: endurance_N_minutes.csv and .png. The outcome is a part of
endurance.md, in benchmarks/results.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import report
import shared
import verdicts
from kills import Kills, Nodes, left_over
from processes import Process, descendants
from shared import RESULTS, ROOT, UsageError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
VICTIMS = ("worker", "buffer", "weights", "learner")
SLEEPING = "benchmarks.sleeping_env"  # registers its environment
SAMPLE_S = 10.0  # between two looks at the memory
YOUNG_S = 30.0  # a process younger than this is still importing: left out
WARM_UP_S = 300.0  # left out of the straight line
ENDING_S = 20.0  # that processes may take to end
# Memory is flat where what a role's processes have for themselves grows, by the straight line, by no more
# than the larger of these. Of files and of Ray's object store, which are mapped as well, the system takes
# pages away and gives them back as it likes.
FLAT_MIB, FLAT_SHARE = 16.0, 0.03  # MiB/hour; of what they hold, per hour
FIELDS = ("seconds", "role", "processes", "mean_mib", "largest_mib", "mean_own_mib")
REPLACED = r"{} \d+ .*: a new one takes its place"  # in train.log


class Outcome(NamedTuple):
    """What came of a run under kills."""

    code: int
    seconds: float
    kills: Kills
    log: str  # train.log
    perf: list[verdicts.Row]
    left: list[Process]
    memory: list[dict[str, Any]]  # rows of FIELDS


def learner_of(supervisor: int) -> int | None:
    """The learner's process: the supervisor's child."""
    mine = [each.pid for each in descendants(supervisor) if each.parent == supervisor]
    return mine[0] if len(mine) == 1 else None


def sample(seconds: float, supervisor: int, under: list[Process]) -> list[dict[str, Any]]:
    """A row for each role: how many processes, and MiB in memory; "own" is what no other process maps too."""
    learner = learner_of(supervisor)
    groups: dict[str, list[Process]] = {}
    for each in under:
        role = {supervisor: "supervisor", learner: "learner"}.get(each.pid, each.role)
        if each.age >= YOUNG_S:
            groups.setdefault(role, []).append(each)
    rows = []
    for role, members in sorted(groups.items()):
        sizes = np.array([each.resident for each in members]) / 2**20
        own = sizes - np.array([each.shared for each in members]) / 2**20
        numbers = sizes.mean(), sizes.max(), own.mean()
        row = {"seconds": round(seconds), "role": role, "processes": len(members)}
        rows.append(row | dict(zip(FIELDS[3:], (round(float(each), 1) for each in numbers), strict=True)))
    return rows


def command_of(args: argparse.Namespace, address: str) -> list[str]:
    """The run, as typed after "python"."""
    words = ["train.py", "--hparams", args.hparams, "--num_workers", str(args.num_workers)]
    words += ["--ray_address", address, "--output_dir", str(args.output_dir)]
    if args.sleeping:
        words += ["--user_modules", SLEEPING, "--env", "SleepingCartPole-v1"]
    if args.train_steps:
        words += ["--train_steps", str(args.train_steps)]
    if args.hparam_override:
        words += ["--hparam_override", args.hparam_override]
    return words


def run(args: argparse.Namespace, nodes: Nodes) -> Outcome:
    """The run under kills, from its start to the end of the cluster."""
    args.output_dir.mkdir(parents=True, exist_ok=True)
    with (args.output_dir / "output.txt").open("w") as output:
        command = [sys.executable, *command_of(args, nodes.address)]
        child = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    begun = time.monotonic()
    try:
        kills, kept, memory = watch(args, nodes, child)
    finally:
        if child.poll() is None:  # something went wrong here
            child.terminate()
            child.wait()
    seconds = time.monotonic() - begun
    actors = {each for each in kept.values() if each.role in ("worker", "buffer", "weights")}
    mine = {each for each in kept.values() if f" {args.output_dir}" in each.title}
    left = left_over(actors | mine, ENDING_S)  # what the cluster, which goes on, should have ended
    nodes.close()
    left += left_over(set(kept.values()), ENDING_S)
    if kills is None:
        raise UsageError(f"the run did not begin to train: see {args.output_dir / 'output.txt'}")
    run_dir = args.output_dir / "run_0"
    log = (run_dir / "train.log").read_text()
    perf = report.read_table(run_dir / "perf.csv")
    return Outcome(child.returncode, seconds, kills, log, perf, left, memory)


def watch(
    args: argparse.Namespace, nodes: Nodes, child: subprocess.Popen[bytes]
) -> tuple[Kills | None, dict[tuple[int, int], Process], list[dict[str, Any]]]:
    """Kills, and looks at the memory, until the run has ended.

    Returns:
        The kills (None: it never trained), all processes that were seen, rows of FIELDS.
    """
    begun, sampled, stopped = time.monotonic(), 0.0, False
    kept: dict[tuple[int, int], Process] = {}
    memory: list[dict[str, Any]] = []
    kills: Kills | None = None
    while child.poll() is None:
        under = descendants(os.getpid())
        kept |= {(each.pid, each.started): each for each in under}
        now = time.monotonic() - begun
        if kills is None and report.read_table(args.output_dir / "run_0" / "perf.csv"):  # it trains
            kills = plan(args, nodes)
        if kills is not None and not stopped and (args.minutes or kills.total < args.kills):
            kills.step(learner_of(child.pid), under)
        if args.minutes and now - sampled >= SAMPLE_S:
            sampled = now
            memory += sample(now, child.pid, under)
            write_samples(args, memory)  # here too: an accident shall not cost them
        if args.minutes and not stopped and now >= 60.0 * args.minutes:
            child.send_signal(signal.SIGTERM)
            stopped = True
        time.sleep(0.5)
    if kills is not None:
        kills.close()
    return kills, kept, memory


def plan(args: argparse.Namespace, nodes: Nodes) -> Kills:
    """The kills to come: with `--kills`, just one of them takes a node."""
    node_at = None if args.minutes else {(args.seed + args.kills // 2) % args.kills}
    return Kills(nodes, args.seed, tuple(args.gap), args.victims, args.num_workers, node_at)


def play(args: argparse.Namespace) -> dict[str, float]:
    """Mean returns of the best and the last checkpoint."""
    import rl

    if args.sleeping:
        importlib.import_module(SLEEPING).SLEEP_S = 0.0  # it would take ten minutes
    run_dir = args.output_dir / "run_0"
    whiches = ("best", "last")
    return {which: float(rl.load(run_dir, which).evaluate(args.episodes).returns.mean()) for which in whiches}


def check(args: argparse.Namespace, done: Outcome, slopes: dict[str, dict[str, float]]) -> list[str]:
    """The lines of the report, each with pass, miss or "not judged"."""
    kills, learners = done.kills, done.kills.made["learner"]
    resumed = done.log.count("resumed at step")
    returns = play(args)
    name = f"{args.hparams}_workers_{args.num_workers}"
    row = {**returns, "steps": done.perf[-1]["step"], "best_step": 0, "seconds": done.seconds}
    verdict = verdicts.verdict(name, [row])
    expected = 128 + int(signal.SIGTERM) if args.minutes else 0
    made = ", ".join(f"{count} {role}" for role, count in sorted(kills.made.items()))
    lines: list[tuple[bool | None, str]] = [
        (done.code == expected, f"exit code {done.code}, expected {expected}, after {done.seconds:.0f} s"),
        (kills.total >= args.kills, f"{kills.total} kills: {made}"),
        *(replacements(args, done, role) for role in ("worker", "buffer") if role in kills.lost),
        (resumed == learners, f"{learners} learners killed, {resumed} resumed from a checkpoint"),
        (
            # Schedules run to the end of `train_steps`, where a run that is stopped never comes.
            None if args.minutes else "miss" not in verdict,
            f"best checkpoint {returns['best']:.1f}, last {returns['last']:.1f} over {args.episodes} "
            f"episodes; bar {verdicts.bar_text(name)}: {verdict}",
        ),
        (not done.left, f"{len(done.left)} processes left: {[each.title[:60] for each in done.left]}"),
    ]
    for role, found in slopes.items():
        bound = max(FLAT_MIB, FLAT_SHARE * found["own_mean"])
        lines.append(
            (
                found["own_slope"] <= bound,
                f"{role}: own memory {found['own_mean']:.0f} MiB, {found['own_slope']:+.1f} MiB/hour "
                f"(at most {bound:.0f}); resident {found['mean']:.0f} MiB, {found['slope']:+.1f} MiB/hour",
            )
        )
    words = {True: "pass", False: "**miss**", None: "not judged"}
    return [f"* {words[right]}: {text}" for right, text in lines]


def replacements(args: argparse.Namespace, done: Outcome, role: str) -> tuple[bool, str]:
    """Whether what was lost of a role was replaced, by train.log and by perf.csv; and the numbers.

    A learner that was killed cannot tell of what was lost just then. Ray may put a new process on a lost node
    before it has noticed the loss: that one is replaced again, so a node may cost each process twice.
    """
    lost, nodes = done.kills.lost[role], done.kills.made["node"]
    replaced = len(re.findall(REPLACED.format(role), done.log))
    counted = float(done.perf[-1].get(f"perf/{role}s_replaced") or 0)
    what = {"worker": "rollouts_lost", "buffer": "transitions_lost"}[role]
    cost = float(done.perf[-1].get(f"perf/{what}") or 0)
    twice = nodes * (args.num_workers if role == "worker" else lost)
    right = lost <= replaced <= lost + twice and counted == replaced
    text = f"{lost} {role}s lost by them, {replaced} replaced by train.log, {counted:.0f} by perf.csv; "
    return right or done.kills.made["learner"] > 0, f"{text}{cost:.0f} {what.replace('_', ' ')} by perf.csv"


def fits(memory: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """By role, after the warm-up: mean MiB of a process, and the slope of a straight line, MiB/hour."""
    found = {}
    for role in sorted({row["role"] for row in memory} - {"idle", "other"}):
        rows = [row for row in memory if row["role"] == role and row["seconds"] >= WARM_UP_S]
        if len(rows) < 3:
            continue
        hours = np.array([row["seconds"] for row in rows]) / 3600.0
        means = {"": [row["mean_mib"] for row in rows], "own_": [row["mean_own_mib"] for row in rows]}
        found[role] = {}
        for prefix, values in means.items():
            found[role][f"{prefix}slope"] = float(np.polyfit(hours, values, 1)[0])
            found[role][f"{prefix}mean"] = float(np.mean(values))
    return found


def draw(memory: list[dict[str, Any]], path: Path) -> None:
    """MiB of a process of each role over the minutes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 4.5), dpi=100)
    for role in sorted({row["role"] for row in memory} - {"idle", "other"}):
        rows = [row for row in memory if row["role"] == role]
        axis.plot([row["seconds"] / 60 for row in rows], [row["mean_own_mib"] for row in rows], label=role)
    axis.axvline(WARM_UP_S / 60, color="gray", linestyle=":", linewidth=1)
    axis.set(xlabel="minutes", ylabel="MiB of its own, mean of the role's processes", ylim=(0, None))
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def title_of(args: argparse.Namespace) -> str:
    """Of the run's part of the page; its samples and picture are called after it."""
    return f"{args.minutes:g} minutes" if args.minutes else f"{args.kills} kills"


def place_of(args: argparse.Namespace, suffix: str) -> Path:
    return args.results / f"endurance_{title_of(args).replace(' ', '_')}{suffix}"


def write_samples(args: argparse.Namespace, memory: list[dict[str, Any]]) -> None:
    """The samples of this run, apart from those of runs of another title."""
    shared.write_table(place_of(args, ".csv"), FIELDS, memory)


def write_results(args: argparse.Namespace, lines: list[str], memory: list[dict[str, Any]]) -> None:
    """This run's part of endurance.md, and its samples."""
    if memory:
        write_samples(args, memory)
        draw(memory, place_of(args, ".png"))
    title = f"## {title_of(args)}"
    words = shlex.join(["python", "benchmarks/endurance.py", *sys.argv[1:]])
    shown = shlex.join(["python", *command_of(args, "HOST:PORT")])
    text = [title, "", f"    {words}", f"    {shown}", "", *lines, ""]
    text += [f"![memory]({place_of(args, '.png').name})", ""] if memory else []
    path = args.results / "endurance.md"
    cores = len(os.sched_getaffinity(0))
    head = f"# Runs under random kills\n\n{cores} cores. Written by `benchmarks/endurance.py`.\n"
    parts = path.read_text().split("\n## ") if path.exists() else [head]
    kept = [f"## {part}" for part in parts[1:] if f"## {part}".split("\n")[0] != title]
    shared.write(path, "\n".join([head, *(part.rstrip("\n") + "\n" for part in kept), "\n".join(text)]))


def arguments() -> argparse.Namespace:
    parser, count, number = shared.parser(__doc__), shared.integer(1), shared.number(0.0)
    add = parser.add_argument
    add("--kills", type=count, default=10, help="how many, at least (default 10)")
    add("--minutes", type=number, default=0.0, help="kill all the time, and stop the run after so long")
    add("--gap", type=number, nargs=2, default=(4.0, 12.0), metavar="S", help="seconds between two kills")
    add("--victims", nargs="+", default=["worker"], choices=VICTIMS, metavar="ROLE",
        help=f"whom to choose from: {', '.join(VICTIMS)}; of each as often as named")  # fmt: skip
    add("--hparams", type=shared.set_name, default="apex_dqn_cartpole", metavar="SET")
    add("--hparam_override", default="", metavar="NAME=VALUE,...")
    add("--sleeping", action="store_true", help="CartPole with 5 ms a step: leaves the cores to others")
    add("--train_steps", type=count, default=0)
    add("--num_workers", type=count, default=4)
    add("--nodes", type=count, default=2, help="beside the head; each has room for all workers")
    text = "and for N processes more, such as buffers"
    add("--room", type=shared.integer(0), default=0, metavar="N", help=text)
    add("--seed", type=shared.integer(0), default=0, help="of times and victims")
    add("--episodes", type=count, default=100, help="of the final evaluations")
    add("--output_dir", type=Path, default=Path("build/endurance"), help="a run there is continued")
    add("--results", type=Path, default=RESULTS, metavar="DIR")
    args = parser.parse_args()
    if args.gap[0] > args.gap[1]:
        raise UsageError(f"--gap {args.gap[0]:g} {args.gap[1]:g}: the shortest comes first, then the longest")
    return args


def main() -> int:
    args = arguments()
    nodes = Nodes(args.nodes, args.num_workers + args.room)
    try:
        done = run(args, nodes)
    finally:
        nodes.close()
    slopes = fits(done.memory)
    lines = check(args, done, slopes)
    write_results(args, lines, done.memory)
    print("\n".join(lines))
    return int(any("**miss**" in line for line in lines))


if __name__ == "__main__":
    shared.answer(main)
