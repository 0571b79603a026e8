"""What the drivers of runs with workers share: when a measurement begins, when it is over, and its line.

Two tasks. `rate`: environment steps per second, from `warmup_s` seconds after the moment when all workers
play and the learner updates, for `measure_s` seconds. `learn`: the time until the mean return of the last 100
training episodes reaches `TARGET`. Standard library only: it runs in every library's environment.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from meter import process_age

TARGET = 450.0  # mean return of the last 100 training episodes
EPISODES = 100


class Mark(NamedTuple):
    """What was done by a time."""

    time: float
    steps: float  # environment steps that reached the learner's process
    updates: float  # gradient updates


def parser(doc: str | None, kind: type[argparse.ArgumentParser] = argparse.ArgumentParser) -> Any:
    """The options that all these drivers take, as a parser of that kind."""
    found = kind(description=doc)
    add = found.add_argument
    add("algo")
    add("--task", choices=("rate", "learn"), default="rate")
    add("--workers", type=int, default=2)
    add("--envs", type=int, default=1, help="environments of each worker")
    add("--env", default="SleepingCartPole-v1")
    add("--seed", type=int, default=1)
    add("--warmup_s", type=float, default=4.0)
    add("--measure_s", type=float, default=10.0)
    add("--limit_s", type=float, default=300.0, help="longest training, learn")
    return found


class Watch:
    """Marks of one run.

    Args:
        library, version: what runs, as they are to be printed.
        args: of `parser`.
    """

    def __init__(self, library: str, version: str, args: argparse.Namespace):
        self.library, self.version, self.args = library, version, args
        self.launched = time.perf_counter() - process_age()
        self.begun = 0.0
        self.all_play: float | None = None  # when all workers played and the learner updated
        self.first_update: float | None = None
        self.warm: Mark | None = None
        self.last: Mark | None = None
        self.reached = False
        self.best = float("-inf")

    def start(self) -> None:
        """Training is about to begin: imports and construction are over."""
        self.begun = time.perf_counter()

    def mark(self, steps: float, updates: float, playing: int, recent: float | None) -> bool:
        """Notes what is done by now; says whether the run is over.

        playing: workers that have delivered; recent: mean return of the last 100 training episodes, None
        before there were as many.
        """
        now = time.perf_counter()
        self.last = Mark(now, steps, updates)
        if updates and self.first_update is None:
            self.first_update = now
        if recent is not None:
            self.best = max(self.best, recent)
        if self.args.task == "learn":
            self.reached = recent is not None and recent >= TARGET
            return self.reached or now - self.begun > self.args.limit_s
        if self.all_play is None:
            if updates and playing >= self.args.workers:
                self.all_play = now
            return False
        if self.warm is None:
            if now - self.all_play >= self.args.warmup_s:
                self.warm = self.last
            return False
        return now - self.warm.time >= self.args.measure_s

    def report(self, **more: object) -> None:
        """Prints the line; `more` adds fields."""
        assert self.last is not None and self.first_update is not None
        line: dict[str, object] = {
            "library": self.library,
            "version": self.version,
            "algo": self.args.algo,
            "env": self.args.env,
            "workers": self.args.workers,
            "envs": self.args.envs,
            "seed": self.args.seed,
            "startup_s": round(self.begun - self.launched, 2),
            "total_env_steps": round(self.last.steps),
            "total_updates": round(self.last.updates),
            "memory_mb": tree_memory_mb(),
        }
        if self.args.task == "learn":
            line |= {
                "reached": self.reached,
                "seconds_from_launch": round(self.last.time - self.launched, 2),
                "seconds_from_first_update": round(self.last.time - self.first_update, 2),
                "best_return": round(self.best, 1),
            }
        else:
            assert self.warm is not None
            seconds = self.last.time - self.warm.time
            line |= {
                "env_steps_per_s": round((self.last.steps - self.warm.steps) / seconds, 1),
                "updates_per_s": round((self.last.updates - self.warm.updates) / seconds, 2),
                "measured_s": round(seconds, 2),
            }
        print("JSON " + json.dumps(line | more), flush=True)


def tree_memory_mb() -> int:
    """Memory of this process and of all that it started, MiB: what they share is divided among them."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has ended
            continue
        parents[int(path.parent.name)] = int(words[1])
    tree = {os.getpid()}
    for _ in range(len(parents)):
        more = {child for child, parent in parents.items() if parent in tree} - tree
        if not more:
            break
        tree |= more
    return round(sum(_proportional_kb(pid) for pid in tree) / 1024)


def _proportional_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
