"""Speed of this tree beside that of an earlier commit: `python benchmarks/before.py COMMIT`.

Takes the runs of ours that `make bench` has (workloads.py). Each round runs the earlier commit and this tree
one after the other, in turn first, with the same interpreter and packages; every process waits until the
machine is idle. Prints the median of each and of the ratios round by round, and writes them to
benchmarks/results/before.md. Runs that are in build/bench/before.jsonl for the same two commits are not made
again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import measure
from bench import ROOT, environ
from workloads import ROWS, RUNS

LOG = ROOT / "build" / "bench" / "before.jsonl"
PAGE = ROOT / "benchmarks" / "results" / "before.md"
QUICK = (
    "ours_ppo_64", "ours_ppo_8", "ours_dqn_1", "ours_dqn_10", "ours_ppo_envpool", "ours_ppo_gym",
    "ours_dqn_gym", "ours_sac_pendulum", "ours_breakout", "ours_space_invaders",
    "ours_prioritized", "ours_whole",
)  # fmt: skip
HEAD = """\
# Before and after

Written by `python benchmarks/before.py {before}`: {before} beside {after}, in alternation, on the same
machine with the same packages. ratio: after / before, the median of the rounds' ratios, then the least and
the greatest of them; above 1 is faster now. wall: of the whole process in seconds.

| run | metric | before | after | ratio | wall before | wall after | rounds (noisy) |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def commit(name: str) -> str:
    return subprocess.run(
        ["git", "rev-parse", "--short", name], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def metric_of(run: str) -> tuple[str, bool]:
    """The field that a run is compared by, and whether less of it is better."""
    row = next(each for each in ROWS.values() if each.ours == run)
    return row.ours_metric or row.metric, row.at_most


def one_run(name: str, tree: Path, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """Runs `RUNS[name]` once in a tree."""
    with tempfile.TemporaryDirectory() as folder:
        known = {"SEED": str(seed), "FOLDER": folder}
        command = [sys.executable, *(known.get(word, word) for word in RUNS[name].command.split())]
        return measure.run(command, str(tree), environ(name), args.wait, args.timeout)


def measure_all(trees: dict[str, Path], args: argparse.Namespace) -> list[dict[str, Any]]:
    """All runs of all rounds; what was logged of these commits is not made again."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    logged = [json.loads(line) for line in LOG.read_text().splitlines()] if LOG.exists() else []
    pair = list(trees)
    rows = [each for each in logged if each["pair"] == pair and "error" not in each]
    done = {(row["run"], row["round"], row["commit"]) for row in rows}
    for number in range(1, args.rounds + 1):
        for name in args.only:
            for mark in pair if number % 2 else reversed(pair):
                if (name, number, mark) in done:
                    continue
                found = one_run(name, trees[mark], number, args)
                row = {"pair": pair, "run": name, "round": number, "commit": mark} | found
                rows.append(row)
                with LOG.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                shown = row.get("error") or f"{row.get(metric_of(name)[0], 0):,.4g}"
                print(f"round {number}  {name}  {mark}  {shown}{'  NOISY' * row['noisy']}", flush=True)
    return rows


def line(name: str, pair: list[str], rows: list[dict[str, Any]]) -> str:
    """The row of the table of one run; empty where a side has no good one."""
    metric, less = metric_of(name)
    sides = [
        {row["round"]: row for row in rows if row["run"] == name and row["commit"] == mark and metric in row}
        for mark in pair
    ]
    rounds = sorted(sides[0].keys() & sides[1].keys())
    if not rounds:
        return ""
    before, after = ([float(side[i][metric]) for i in rounds] for side in sides)
    ratios = [(old / new if less else new / old) for old, new in zip(before, after, strict=True)]
    walls = [statistics.median(side[i]["wall_s"] for i in rounds) for side in sides]
    noisy = sum(side[i]["noisy"] for side in sides for i in rounds)
    middle = [f"{statistics.median(values):,.{1 if less else 0}f}" for values in (before, after)]
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    cells = [name, metric, *middle, ratio, *(f"{wall:.1f}" for wall in walls), f"{len(rounds)} ({noisy})"]
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ours = [name for name, run in RUNS.items() if run.where == "ours"]
    parser.add_argument("commit", help="the earlier one")
    parser.add_argument(
        "--only", nargs="+", default=list(QUICK), choices=ours, metavar="RUN", help=" ".join(ours)
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--wait", type=float, default=120, metavar="S", help="longest wait for an idle machine"
    )
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="longest run")
    args = parser.parse_args()
    earlier, now = commit(args.commit), commit("HEAD")
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), earlier], cwd=ROOT, check=True)
        try:
            rows = measure_all({earlier: tree, now: ROOT}, args)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    lines = [text for name in args.only if (text := line(name, [earlier, now], rows))]
    page = HEAD.format(before=earlier, after=now) + "\n".join(lines) + "\n"
    PAGE.write_text(page)
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
