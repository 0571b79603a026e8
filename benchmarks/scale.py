"""How a run with workers grows to a thousand of them: what arrives, how old it is, and what is full first.

    python benchmarks/scale.py                                     # all rows that scale.csv has not
    python benchmarks/scale.py --workers 64 --seconds 0.5 --show   # one of them, printed
    python benchmarks/scale.py --report                            # scale.md again, from scale.csv

The learner, its pool, the role that hands out weights and Ray are those of train.py. Workers are simulated,
for no machine of ours holds a thousand processes: `Sleepers`, a few processes, each of which is hundreds of
workers. Such a worker asks for the newest weights, sleeps as long as a rollout takes, and sends one that a
real worker has played. So what is measured is everything that a rollout costs but playing it. Rows are
measured in processes of their own, and written to benchmarks/results/scale.csv.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import measure
import scaling_report
import shared
from shared import RESULTS, ROOT

from rl.imports import import_tensorflow

LENGTH = 100  # steps of a rollout, as in scaling.py
WORKERS = (16, 128, 1000)
SECONDS = (0.5, 5.0)  # that a rollout takes: 200 and 20 steps/s of a worker
PROCESSES = 4  # that simulate workers
WARM, MEASURED = 5.0, 15.0  # seconds; the first after every worker has delivered
ROLES = {"weights": "ray::Weights", "workers": "ray::Sleepers", "raylet": "/raylet", "head": "gcs_server"}
COLUMNS = {
    "workers": "workers",
    "seconds": "s a rollout",
    "offered_per_s": "rollouts/s offered",
    "rollouts_per_s": "taken",
    "steps_per_s": "steps/s",
    "megabytes_per_s": "MB/s",
    "staleness_mean": "staleness",
    "staleness_max": "most",
    "learner_waits": "share that the learner waits",
    "waiting_ms": "ms a rollout waiting",
    "learning_ms": "ms a rollout learning",
    "cpu_learner": "cores: learner",
    "cpu_weights": "weights",
    "cpu_workers": "simulated workers",
    "cpu_raylet": "raylet",
    "cpu_head": "head",
}
FIELDS = (*COLUMNS, "idle", "date")


class Sleepers:
    """A process that stands for many workers, each of which sleeps through its rollouts.

    Args:
        weights: handle of the `Weights` actor.
        played: a `Rollout` that a real worker made.
        seconds: that a rollout takes.
    """

    def __init__(self, weights: Any, played: Any, seconds: float):
        self._weights, self._played, self._seconds = weights, played, seconds
        self._versions: dict[int, int] = {}
        self._turns: dict[int, asyncio.Lock] = {}

    async def rollout(self, worker: int, part: float) -> Any:
        """The next rollout of a worker, which makes one after another; part: of a rollout's time that the
        first one takes, so that not all come at once."""
        from rl.workers.weights import Version

        async with self._turns.setdefault(worker, asyncio.Lock()):
            known = self._versions.get(worker)
            newest = await self._weights.newest.remote(-1 if known is None else known)
            if isinstance(newest, Version):
                if isinstance(newest.flat, list):
                    await newest.flat[0]
                self._versions[worker] = newest.number
            await asyncio.sleep(self._seconds * (part if known is None else 1.0))
            return self._played._replace(worker=worker, version=self._versions[worker])


class Order(NamedTuple):
    """What the pool calls of a worker's handle: `handle.rollout.remote(iteration)`."""

    host: Any
    worker: int
    part: float

    def remote(self, iteration: int | None = None) -> Any:
        return self.host.rollout.remote(self.worker, self.part)


class Handle(NamedTuple):
    """A worker as the pool sees it."""

    rollout: Order


class Simulation:
    """Gives a runner's pool simulated workers."""

    def __init__(self, runner: Any, count: int, seconds: float):
        self._make, self._runner, self._count, self._seconds = runner._worker, runner, count, seconds
        self._hosts: list[Any] = []
        runner._worker = self.worker

    def worker(self, index: int, incarnation: int) -> Handle:
        if not self._hosts:
            self._begin()
        return Handle(Order(self._hosts[index % PROCESSES], index, (index + 1) / self._count))

    def _begin(self) -> None:
        import ray

        from rl.workers.cluster import QUIET

        real = self._make(0, 0)
        played = ray.get(real.rollout.remote(None))
        ray.kill(real)
        host = ray.remote(Sleepers).options(num_cpus=0, max_concurrency=4 * self._count, **QUIET)
        role = self._runner._publisher.role
        self._hosts = [host.remote(role, played, self._seconds) for _ in range(PROCESSES)]


def cpu_seconds() -> dict[str, float]:
    """CPU time so far of this process and of Ray's, by role."""
    found = dict.fromkeys(ROLES, 0.0)
    tick = os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            numbers = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        for role, word in ROLES.items():
            if word in name.partition(" ")[0]:
                found[role] += (int(numbers[11]) + int(numbers[12])) / tick
    return found | {"learner": time.process_time()}


def measured(workers: int, seconds: float) -> dict[str, Any]:
    """One row: a run with so many workers, whose rollouts take `seconds`."""
    import_tensorflow()  # before Ray, as train.py has it
    from rl.hparams.merge import resolve
    from rl.runners.build import build_runner
    from rl.workers.plan import Workers

    overrides = {"num_envs": 1, "rollout_length": LENGTH, "lr": 5e-4, "train_steps": 10**9}
    runner = build_runner(resolve("impala_cartpole", overrides), 0, Workers(workers))
    Simulation(runner, workers, seconds)

    def run_for(duration: float) -> int:
        end = time.perf_counter() + duration
        begun = runner.made
        runner.advance(10**9, lambda _: time.perf_counter() < end)
        return runner.made - begun

    while runner.scalars().get("perf/workers_playing", 0) < workers:
        run_for(0.5)
    run_for(WARM)
    runner.scalars()
    before, begun = cpu_seconds(), time.perf_counter()
    made = run_for(MEASURED)
    elapsed = time.perf_counter() - begun
    after, told = cpu_seconds(), runner.scalars()
    runner.close()
    waits = told["perf/learner_wait_fraction"]
    row = {
        "workers": workers,
        "seconds": seconds,
        "offered_per_s": workers / seconds,
        "rollouts_per_s": made / elapsed,
        "steps_per_s": made * LENGTH / elapsed,
        "megabytes_per_s": told["perf/megabytes_per_second"],
        "learner_waits": waits,
        "staleness_mean": told["perf/staleness_mean"],
        "staleness_max": told["perf/staleness_max"],
        "waiting_ms": 1e3 * waits * elapsed / made,
        "learning_ms": 1e3 * (1.0 - waits) * elapsed / made,
    }
    return row | {f"cpu_{role}": (after[role] - before[role]) / elapsed for role in after}


def rows() -> list[dict[str, str]]:
    """Those of scale.csv."""
    return shared.read_table(RESULTS / "scale.csv")


def missing(counts: list[int], durations: list[float]) -> Iterator[tuple[int, float]]:
    """(workers, seconds of a rollout) without a row."""
    known = {(int(row["workers"]), float(row["seconds"])) for row in rows()}
    for seconds in durations:
        yield from ((count, seconds) for count in counts if (count, seconds) not in known)


def measure_missing(counts: list[int], durations: list[float], wait: float) -> None:
    """Measures the missing rows, each in a process of its own, and writes each as it comes."""
    path = RESULTS / "scale.csv"
    for count, seconds in missing(counts, durations):
        command = [sys.executable, __file__, "--workers", str(count), "--seconds", str(seconds), "--show"]
        env = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
        found = measure.run(command, str(ROOT), env, wait, 900.0)
        if "error" in found:
            print(f"{' '.join(command)}\n{found['output']}", file=sys.stderr)
            raise shared.UsageError(f"{count} workers of {seconds:g} s: {found['error']}")
        row = {name: found.get(name, "") for name in FIELDS} | {"date": str(datetime.date.today())}
        shown = {name: f"{x:.4g}" if isinstance(x, float) else x for name, x in row.items()}
        shared.write_table(path, FIELDS, [*rows(), shown])
        taken, offered = row["rollouts_per_s"], row["offered_per_s"]
        print(f"{count} workers of {seconds} s: {taken:.1f} of {offered:g} rollouts/s", flush=True)


def report() -> None:
    """Writes scale.md from scale.csv."""
    lines = ["# A thousand workers, simulated", ""]
    lines += ["Written by `python benchmarks/scale.py`, whose docstring says how; read in docs/scale.md.", ""]
    ordered = sorted(rows(), key=lambda row: (float(row["seconds"]), int(row["workers"])))
    cells = [[row[name] for name in COLUMNS] for row in ordered]
    lines += scaling_report.table(list(COLUMNS.values()), cells)
    days = sorted({row["date"] for row in ordered})
    idle = sum(row["idle"] == "True" for row in ordered)
    lines += ["", f"Rows of {' and '.join(days)}; {idle} of {len(ordered)} began on an idle machine."]
    shared.write(RESULTS / "scale.md", "\n".join(lines) + "\n")


def main() -> None:
    parser, above = shared.parser(__doc__), shared.number(0.0, above=True)
    add = parser.add_argument
    add("--workers", type=shared.integer(1), nargs="+", default=list(WORKERS))
    add("--seconds", type=above, nargs="+", default=list(SECONDS), help="that a rollout takes")
    add("--wait", type=shared.number(0.0), default=60.0, help="seconds to wait for an idle machine")
    add("--show", action="store_true", help="measure here and now, and print")
    add("--report", action="store_true")
    args = parser.parse_args()
    if args.show:
        for seconds in args.seconds:
            for count in args.workers:
                print("JSON", json.dumps(measured(count, seconds)), flush=True)
        return
    if not args.report:
        measure_missing(args.workers, args.seconds, args.wait)
    report()


if __name__ == "__main__":
    shared.answer(main)
