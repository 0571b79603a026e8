"""Speed of this tree beside that of an earlier commit: `python benchmarks/before.py COMMIT`.

Takes the runs of ours that `make bench` has (workloads.py), with the same interpreter and packages. A round
of a workload of ours.py is two processes that take turns within the second (duel.py); one of another program
is both trees' processes one after the other, in turn first. `--sets NAME...` takes named sets of hparams
instead, each tree its own as they are there, for algorithms that have no row. Prints the median of each and
of the ratios round by round, and writes them to before.md, or before_sets.md, in benchmarks/results
(`--results`); nothing where no round ended. Rounds that are in build/bench/before.jsonl for the same two
commits are not made again.
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duel
import measure
import shared
from bench import environ
from shared import RESULTS, ROOT, UsageError
from workloads import ROWS, RUNS

from rl.hparams.merge import named

LOG = ROOT / "build" / "bench" / "before.jsonl"
OURS = "benchmarks/ours.py"
SET = "set "  # begins the run of a named set
QUICK = (
    "ours_ppo_64", "ours_ppo_8", "ours_dqn_1", "ours_dqn_10", "ours_ppo_envpool", "ours_ppo_gym",
    "ours_dqn_gym", "ours_sac_pendulum", "ours_breakout", "ours_space_invaders",
    "ours_prioritized", "ours_whole",
)  # fmt: skip
HEAD = """\
# Before and after

Written by `{command}`: {before} beside {after}, on the same machine with the same
packages. ratio: after / before, the median of the rounds' ratios, then the least and the greatest of them;
above 1 is faster now. In a round of a workload of ours.py, or of a named set, two processes take turns every
quarter of a second, {turns} times at most; other programs run one after the other, whole. compile: building,
and the first iteration, in seconds.

| run | metric | before | after | ratio | compile before | compile after | rounds (noisy) |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""


def commit(name: str) -> str:
    """Its short name. Raises UsageError where there is no such commit."""
    words = ["git", "rev-parse", "--short", "--verify", "--quiet", f"{name}^{{commit}}"]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    if not found:
        raise UsageError(f"{name} is no commit of this checkout: git log names them")
    return found


def set_of_hparams(text: str) -> str:
    """Is an argparse type: a named set of this tree. Raises UsageError, with the nearest names."""
    named(text)
    return text


def metric_of(run: str) -> tuple[str, bool]:
    """The field that a run is compared by, and whether less of it is better."""
    if run.startswith(SET):
        return "env_steps_per_s", False
    row = next(each for each in ROWS.values() if each.ours == run)
    return row.ours_metric or row.metric, row.at_most


def one_round(name: str, number: int, trees: list[Path], args: argparse.Namespace) -> dict[str, Any]:
    """Runs `RUNS[name]` in both trees, (before, after)."""
    words = [OURS, *name.split()] if name.startswith(SET) else RUNS[name].command.split()
    if words[0] == OURS:
        idle, others = measure.wait_until_idle(args.wait), measure.Others()
        workload = [str(number) if word == "SEED" else word for word in words[1:]]
        found = duel.duel(trees, workload, environ(name))
        return found._asdict() | {"noisy": not idle or others.cores() > measure.IDLE_CORES}
    return in_processes(name, number, trees, args)


def in_processes(name: str, number: int, trees: list[Path], args: argparse.Namespace) -> dict[str, Any]:
    """The same of a program that is measured as a whole. Raises RuntimeError where it fails."""
    metric, less = metric_of(name)
    values, noisy = [0.0, 0.0], False
    for i in (0, 1) if number % 2 else (1, 0):
        with tempfile.TemporaryDirectory() as folder:
            known = {"SEED": str(number), "FOLDER": folder}
            command = [sys.executable, *(known.get(word, word) for word in RUNS[name].command.split())]
            found = measure.run(command, str(trees[i]), environ(name), args.wait, args.timeout)
        if "error" in found:
            raise RuntimeError(f"{found['error']}\n{found['output']}")
        values[i], noisy = float(found[metric]), noisy or found["noisy"]
    ratio = values[0] / values[1] if less else values[1] / values[0]
    return {"rates": values, "ratio": ratio, "compile_s": None, "noisy": noisy}


def measure_all(trees: dict[str, Path], args: argparse.Namespace) -> list[dict[str, Any]]:
    """All rounds of all runs; what was logged of these commits is not made again."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    logged = [json.loads(line) for line in LOG.read_text().splitlines()] if LOG.exists() else []
    pair = list(trees)
    rows = [each for each in logged if each["pair"] == pair and "ratio" in each]
    done = {(row["run"], row["round"]) for row in rows}
    for number in range(1, args.rounds + 1):
        for name in args.only:
            if (name, number) in done:
                continue
            try:
                found = one_round(name, number, list(trees.values()), args)
            except RuntimeError as error:
                print(f"round {number}  {name}  {error}", flush=True)
                continue
            row = {"pair": pair, "run": name, "round": number} | found
            rows.append(row)
            with LOG.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"round {number}  {name}  {row['ratio']:.3f}{'  NOISY' * row['noisy']}", flush=True)
    return rows


def line(name: str, rows: list[dict[str, Any]]) -> str:
    """The row of the table of one run; empty where no round of it ended."""
    metric, less = metric_of(name)
    mine = [row for row in rows if row["run"] == name]
    if not mine:
        return ""
    ratios = [row["ratio"] for row in mine]
    middle = [f"{statistics.median(row['rates'][i] for row in mine):,.{1 if less else 0}f}" for i in (0, 1)]
    compiled = [row["compile_s"] for row in mine if row["compile_s"]]
    seconds = [f"{statistics.median(pair[i] for pair in compiled):.1f}" if compiled else "" for i in (0, 1)]
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    cells = [name, metric, *middle, ratio, *seconds, f"{len(mine)} ({sum(row['noisy'] for row in mine)})"]
    return "| " + " | ".join(cells) + " |"


def main() -> int:
    parser, number = shared.parser(__doc__), shared.number(0.0)
    ours = [name for name, run in RUNS.items() if run.where == "ours"]
    parser.add_argument("commit", help="the earlier one")
    parser.add_argument(
        "--only", nargs="+", default=list(QUICK), choices=ours, metavar="RUN", help=" ".join(ours)
    )
    parser.add_argument("--rounds", type=shared.integer(1), default=5)
    text = "named sets of hparams instead, as both trees have them, environments on this machine"
    parser.add_argument("--sets", nargs="+", default=[], type=set_of_hparams, metavar="NAME", help=text)
    text = "longest wait for an idle machine"
    parser.add_argument("--wait", type=number, default=120.0, metavar="S", help=text)
    parser.add_argument("--timeout", type=number, default=300.0, metavar="S", help="longest run")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    args = parser.parse_args()
    args.only = [SET + name for name in args.sets] or args.only
    earlier, now = commit(args.commit), commit("HEAD")
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", str(tree), earlier], cwd=ROOT, check=True)
        try:
            rows = measure_all({earlier: tree, now: ROOT}, args)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)
    command = shlex.join(["python", "benchmarks/before.py", *sys.argv[1:]])
    text = page(command, (earlier, now), [text for name in args.only if (text := line(name, rows))])
    if not text:
        print("no round ended: nothing is written")
        return 1
    shared.write(args.results / ("before_sets.md" if args.sets else "before.md"), text)
    print(text)
    return 0


def page(command: str, pair: tuple[str, str], lines: list[str]) -> str:
    """The page of (before, after); empty where there are no lines."""
    head = HEAD.format(command=command, before=pair[0], after=pair[1], turns=duel.TURNS)
    return head + "\n".join(lines) + "\n" if lines else ""


if __name__ == "__main__":
    shared.answer(main)
