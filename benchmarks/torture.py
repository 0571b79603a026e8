"""Does faults to runs, hundreds of many kinds, and judges what comes of each: the fault campaign.

    python benchmarks/torture.py                              # all, about an hour and a half on two cores
    python benchmarks/torture.py --kinds sigkill_checkpoint best_flipped --faults 20
    python benchmarks/torture.py --report                     # the page again, from the rows

Each fault is a row of torture.csv; rows that are there are not made again, so that a campaign that was ended
goes on. Files of runs that failed stay in build/torture/cases. `faulted/` has the kinds and the judgement.
The runs are forks of a process that has imported everything, but for one in ten or so, and all with workers,
which are started as they are typed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import csv
import functools
import importlib
import multiprocessing
import os
import shlex
import shutil
import signal
import sys
import zlib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import shared
from faulted import damage, environments, numbers, others, report, signals, system  # noqa: F401
from faulted.cases import KINDS, judged
from shared import RESULTS, ROOT, UsageError

from rl.signals import end_with_parent

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# What the runs import only where they need it.
LAZY = ("agents.algos.ppo", "agents.algos.dqn", "agents.algos.grad_comp.backprop", "envs.graph.cartpole")
LAZY += ("agents.algos.act_select.sample", "agents.algos.act_select.epsilon_greedy", "envs.gym_host")
LAZY += ("memory.rollout", "memory.prioritized", "models.mlp", "runners.in_graph", "runners.sync")
Fault = tuple[str, int]


def planned(kinds: Sequence[str], faults: int | None) -> list[Fault]:
    """Which faults, the first ones of all kinds first; `faults`: how many, None for each kind's share."""
    counts = {name: KINDS[name].share for name in kinds}
    if faults is not None:
        scale = faults / sum(counts.values())
        counts = {name: max(1, round(count * scale)) for name, count in counts.items()}
    ordered = [(number / count, name, number) for name, count in counts.items() for number in range(count)]
    return [(name, number) for _, name, number in sorted(ordered)]


def ready() -> None:
    """Imports all that a run does, in the process that the runs are forks of."""
    end_with_parent(os.getppid(), signal.SIGKILL)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from rl.imports import import_tensorflow

    import_tensorflow()
    for name in ("experiment", *LAZY):
        importlib.import_module(f"rl.{name}")


def read(path: Path) -> list[dict[str, str]]:
    """Rows of earlier calls, of each fault the last; a line that was torn by a kill is left out."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if None not in row.values() and None not in row]
    return list({(row["kind"], row["number"], row["seed"]): row for row in rows}.values())


def append(path: Path, row: dict[str, Any]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, report.FIELDS)
        if new:
            writer.writeheader()
        writer.writerow(row)
        file.flush()
        os.fsync(file.fileno())


def campaign(args: argparse.Namespace, table: Path) -> None:
    """Does all faults that have no row yet."""
    rows = [row for row in read(table) if not (args.again and row["outcome"] == "failed")]
    done = {(row["kind"], int(row["number"]), int(row["seed"])) for row in rows}
    wanted = planned(args.kinds or list(KINDS), args.faults)
    left = [(kind, number) for kind, number in wanted if (kind, number, args.seed) not in done]
    print(f"{len(wanted)} faults, {len(wanted) - len(left)} of them done before", flush=True)
    if not left:
        return
    forget_undisturbed(args.work / "undisturbed")
    facts = {"commit": report.commit(), "date": str(date.today())}
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(args.jobs, spawn, ready) as pool:
        tasks = {
            pool.submit(judged, kind, number, args.seed, args.work, args.keep): (kind, number)
            for kind, number in left
        }
        try:
            for count, task in enumerate(concurrent.futures.as_completed(tasks), 1):
                row = task.result() | facts
                append(table, row)
                said = " ".join(str(row[name]) for name in ("kind", "number", "outcome", "codes", "seconds"))
                print(f"{count}/{len(left)} {said}  {row['detail']}", flush=True)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(pool._processes.values()):
                process.kill()  # what they have started ends with them
            raise


def forget_undisturbed(folder: Path) -> None:
    """Removes the undisturbed runs of other sources than those that are here."""
    paths = sorted([*(ROOT / "rl").rglob("*.py"), ROOT / "benchmarks" / "faulted" / "cases.py"])
    sources = str(functools.reduce(lambda crc, path: zlib.crc32(path.read_bytes(), crc), paths, 0))
    mark = folder / "sources"
    if not mark.exists() or mark.read_text() != sources:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        mark.write_text(sources)


def parser() -> argparse.ArgumentParser:
    made, count = shared.parser(__doc__), shared.integer(1)
    made.add_argument("--kinds", nargs="+", metavar="KIND", help=f"of {', '.join(KINDS)}")
    made.add_argument("--faults", type=count, help="how many in all (default: a whole campaign)")
    made.add_argument("--jobs", type=count, default=2, help="faults at a time (default 2)")
    made.add_argument("--seed", type=shared.integer(0), default=0, help="of moments and places (default 0)")
    made.add_argument("--work", type=Path, default=ROOT / "build" / "torture", help="folder for runs")
    made.add_argument("--results", type=Path, default=RESULTS, help="folder for torture.csv and torture.md")
    made.add_argument("--again", action="store_true", help="does those again that failed")
    made.add_argument("--keep", action="store_true", help="keeps the files of all runs")
    made.add_argument("--report", action="store_true", help="writes the page anew, does nothing else")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the campaign; the exit code is 1 where a fault failed."""
    args = parser().parse_args(argv)
    shared.check_known("--kinds", args.kinds or [], list(KINDS))
    args.work = args.work.resolve()
    table = args.results / "torture.csv"
    if not args.report:
        args.results.mkdir(parents=True, exist_ok=True)
        campaign(args, table)
    if not read(table):
        raise UsageError(f"there is no row in {table}: nothing to report")
    words = shlex.join(["python", "benchmarks/torture.py", *(sys.argv[1:] if argv is None else argv)])
    rows = read(table)
    report.written(rows, args.results / "torture.md", words.replace(" --report", ""))
    return 1 if any(row["outcome"] == "failed" for row in rows) else 0


if __name__ == "__main__":
    shared.answer(main)
