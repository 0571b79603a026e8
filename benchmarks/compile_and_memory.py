"""Compile time and memory of every shipped hparams set whose environment is in-graph.

    python benchmarks/compile_and_memory.py [--hparams ppo_cartpole ...] [--iterations 10000]

Each set trains in a process of its own, with everything that train.py does besides: metrics, TensorBoard,
checkpoints. Windows (rows of metrics) are 100 iterations; at the end of each, when the checkpoint has been
written, the process's resident memory is read. Writes benchmarks/results/compile_and_memory.md and .csv, one
line per set, keeping other sets' lines; `--report` writes the page again, from these.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import shared
from shared import RESULTS

from rl.report.callbacks import Callbacks, Calls

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
WINDOW = 100  # iterations
WINDOWS = 3  # before growth says anything: with fewer, half-way is the first or the last of them
COMPILE_BAR_S = 15.0
GROWTH_BAR_MB = 16.0  # from iteration 100 to the end: the allocator takes some more, then no more
LATE_GROWTH_BAR_MB = 2.0  # in the second half: a leak would show here
FIELDS = ("hparams", "env", "compile_s", "first_window_s", "iterations", "rss_100_mb", "rss_half_mb",
          "rss_end_mb", "growth_mb", "steps", "seconds", "date")  # fmt: skip


def resident_mb() -> float:
    """Resident memory of this process now, MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class Probe(Callbacks):
    """Notes time and memory when training begins, and at each checkpoint, which ends a window; asks for the
    end once the iterations, or the time, are used."""

    def __init__(self, iterations: int, limit_s: float):
        self.windows, self.limit_s = -(-iterations // WINDOW), limit_s
        self.times: list[float] = []
        self.memory: list[float] = []

    def note(self) -> None:
        self.times.append(time.perf_counter())
        self.memory.append(resident_mb())

    def on_checkpoint(self, step: int, folder: Path) -> bool:
        self.note()
        return len(self.times) > self.windows or self.times[-1] - self.times[0] > self.limit_s


def settings(name: str) -> Any:
    """The set's hparams, unfrozen; None for a set that names no algorithm or no environment by itself."""
    from rl.hparams.merge import named

    hparams = named(name)
    return hparams if hparams.algo and hparams.env else None


def child(name: str, iterations: int, limit_s: float) -> None:
    """Trains the set and prints the measurements as one line of JSON."""
    from rl.imports import import_tensorflow

    import_tensorflow()  # as the command line does
    from rl.request import Request
    from rl.runners.in_graph import InGraphRunner
    from rl.runners.trainer import Trainer
    from rl.signals import StopRequest
    from rl.storage.storage import Storage

    hparams = settings(name)
    per_iteration = hparams.num_envs * hparams.rollout_length
    hparams.log_period = WINDOW * per_iteration
    hparams.checkpoint_period = 0.0  # after every window, so that the first one's cost is not seen as growth
    probe = Probe(iterations, limit_s)
    # One window more than the probe lets run: the evaluation that ends a training is left out.
    hparams.train_steps = (probe.windows + 1) * hparams.log_period
    hparams.freeze()
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run_0"
        trainer = Trainer(Request(hparams, eval_episodes=1, calls=Calls([probe])), Storage(run_dir))
        if not isinstance(trainer.runner, InGraphRunner):
            print(json.dumps({"skipped": "its environment is not in-graph"}))
            return
        run_dir.mkdir()
        probe.note()
        trainer.train(StopRequest())
        seconds = time.perf_counter() - probe.times[0]
        trainer.close()
    spans = [after - before for before, after in zip(probe.times, probe.times[1:], strict=False)]
    memory = probe.memory[1:]  # at the end of window 1, 2, ...
    print(
        json.dumps(
            {
                "hparams": name,
                "env": hparams.env,
                "compile_s": round(max(spans[0] - min(spans[1:], default=0.0), 0.0), 2),
                "first_window_s": round(spans[0], 2),
                "iterations": trainer.runner.step // per_iteration,
                "rss_100_mb": round(memory[0], 1),
                "rss_half_mb": round(memory[len(memory) // 2], 1),
                "rss_end_mb": round(memory[-1], 1),
                "growth_mb": round(memory[-1] - memory[0], 1),
                "steps": trainer.runner.step,
                "seconds": round(seconds, 1),
                "date": datetime.date.today().isoformat(),
            }
        )
    )


def measure(name: str, iterations: int, limit_s: float) -> dict[str, Any]:
    """The measurements of one set, taken in a process of its own."""
    command = [sys.executable, __file__, "--child", name]
    command += ["--iterations", str(iterations), "--limit", str(limit_s)]
    env = os.environ | {"RL_PROGRAM_CACHE": "off"}  # what was compiled before is compiled again
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def verdict(row: dict[str, Any]) -> str:
    """pass, or what is amiss; "-" where too few windows tell nothing of growth."""
    wrong = []
    if float(row["compile_s"]) >= COMPILE_BAR_S:
        wrong.append("compilation")
    judged = int(row["iterations"]) >= WINDOWS * WINDOW
    late = float(row["rss_end_mb"]) - float(row["rss_half_mb"])
    if judged and (float(row["growth_mb"]) > GROWTH_BAR_MB or late > LATE_GROWTH_BAR_MB):
        wrong.append("memory")
    if wrong:
        return "MISS: " + ", ".join(wrong)
    return "pass" if judged else "-"


def page(rows: list[dict[str, Any]]) -> str:
    """The report."""
    header = ["hparams", "environment", "compile s", "first 100 iterations s", "iterations",
              "MiB at 100", "half-way", "at the end", "growth", "result"]  # fmt: skip
    days = sorted({row["date"] for row in rows})
    lines = [
        "# Compile time and memory",
        "",
        f"In-graph, without a GPU. Written by `python benchmarks/compile_and_memory.py`; see ../README.md. "
        f"{len(rows)} sets, measured on {' and '.join(days)} and not since; other sets have not been.",
        "",
        "| " + " | ".join(header) + " |",
        "|" + " --- |" * len(header),
    ]
    for row in rows:
        lines.append("| " + " | ".join([*(str(row[key]) for key in FIELDS[:9]), verdict(row)]) + " |")
    lines += [
        "",
        "compile: what the first 100 iterations took longer than the fastest 100 later ones. Memory is the "
        f"resident memory of the whole process, in MiB. Bars: compilation below {COMPILE_BAR_S:g} s, growth "
        f"of at most {GROWTH_BAR_MB:g} MiB, and of at most {LATE_GROWTH_BAR_MB:g} MiB in the second half. "
        f'"-": fewer than {WINDOWS * WINDOW} iterations, of whose growth nothing is said.',
        "",
    ]
    return "\n".join(lines)


def write_results(rows: list[dict[str, Any]], folder: Path) -> None:
    """compile_and_memory.csv and .md, with the lines of sets that were measured earlier."""
    path = folder / "compile_and_memory.csv"
    known = {row["hparams"]: row for row in [*shared.read_table(path), *rows]}
    ordered = [known[name] for name in sorted(known)]
    if not ordered:
        raise shared.UsageError(f"nothing has been measured in {folder}: leave out --report")
    shared.write_table(path, FIELDS, ordered)
    shared.write(folder / "compile_and_memory.md", page(ordered))


def main() -> None:
    parser = shared.parser(__doc__)
    add, count = parser.add_argument, shared.integer(1)
    add("--hparams", nargs="+", type=shared.set_name, metavar="SET", help="default: all shipped sets")
    add("--iterations", type=count, default=10_000)
    longest = "longest training of a set"
    add("--limit", type=shared.number(0.0, above=True), default=900.0, metavar="S", help=longest)
    add("--results", type=Path, default=RESULTS, metavar="DIR")
    add("--report", action="store_true", help="only write the page, from the CSV file")
    add("--child", metavar="SET", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.iterations, args.limit)
        return
    if args.report:
        write_results([], args.results)
        return
    from rl.hparams.registry import registry

    names = args.hparams or [name for name in registry.names() if settings(name) is not None]
    rows = []
    for name in names:
        if settings(name) is None:
            raise shared.UsageError(f"{name} names no algorithm or no environment: name a set of a task")
    for name in names:
        row = measure(name, args.iterations, args.limit)
        if "skipped" in row:
            print(f"{name}: skipped, {row['skipped']}")
            continue
        rows.append(row)
        print(
            f"{name}: {verdict(row)}  " + "  ".join(f"{key} {row[key]}" for key in FIELDS[2:10]), flush=True
        )
        write_results(rows, args.results)


if __name__ == "__main__":
    shared.answer(main)
