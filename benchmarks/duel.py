"""Two trees of this project take turns at one workload, some tenths of a second each: what the machine does
beside them falls on both alike, so that a few percent show on one whose speed drifts by twenty.

`before.py` calls `duel`; it starts this file once for each tree, as

    python benchmarks/duel.py TREE WORKLOAD...      # WORKLOAD: what TREE/benchmarks/ours.py takes
    python benchmarks/duel.py TREE set NAME         # that tree's set of hparams, as it is there

which builds the runner of that tree, makes its first iteration and those until it learns, prints how long
both took, and then, for every number of iterations that it reads, how many seconds these took.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

MARK = "DUEL "  # begins each line that is an answer: libraries print others
WARM_STEPS = 12_000  # environment steps after which every workload's memory gives batches
BURST_S = 0.25
TIMEOUT_S = 900.0  # for one answer, compilation included, after which a process hangs
TURNS = 40  # at most
TURNS_S = 90.0  # after which there are no more turns than `FEWEST_TURNS`: an iteration can take seconds
FEWEST_TURNS = 6


class Round(NamedTuple):
    """What two processes, one of each tree, found. Pairs are (before, after)."""

    rates: tuple[float, float]  # environment steps/s: the median of the bursts
    ratio: float  # after / before, the median of the turns' ratios
    compile_s: tuple[float, float]  # building, and the first iteration


class Side:
    """One tree's process."""

    def __init__(self, tree: Path, workload: Sequence[str], env: Mapping[str, str]):
        command = [sys.executable, __file__, str(tree), *workload]
        self._process = subprocess.Popen(
            command, cwd=tree, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            self.compile_s, self.steps_per_iteration = self._answer()
        except BaseException:
            self.close()
            raise

    def seconds(self, iterations: int) -> float:
        """How long that many iterations take."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{iterations}\n")
        self._process.stdin.flush()
        return self._answer()[0]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> tuple[float, float]:
        """The two numbers of its next answer. Raises RuntimeError with its last words where it has ended,
        and ends it where it hangs."""
        assert self._process.stdout is not None
        hangs = threading.Timer(TIMEOUT_S, self._process.kill)
        hangs.start()
        try:
            for line in self._process.stdout:
                if line.startswith(MARK):
                    first, second = map(float, line.removeprefix(MARK).split())
                    return first, second
        finally:
            hangs.cancel()
        assert self._process.stderr is not None
        last = self._process.stderr.read()[-1000:]
        if self._process.wait() == -signal.SIGKILL:
            last = f"no answer within {TIMEOUT_S:.0f} s, or killed by others\n{last}"
        raise RuntimeError(last)


def duel(trees: Sequence[Path], workload: Sequence[str], env: Mapping[str, str], turns: int = TURNS) -> Round:
    """Lets two trees, (before, after), take turns. Raises RuntimeError where one cannot run it."""
    sides: list[Side] = []
    try:
        for tree in trees:
            sides.append(Side(tree, workload, env))
        iterations = burst(sides[0])
        times: tuple[list[float], list[float]] = ([], [])
        begun = time.perf_counter()
        for turn in range(turns):
            if turn >= FEWEST_TURNS and time.perf_counter() - begun > TURNS_S:
                break
            for i in (0, 1) if turn % 2 else (1, 0):
                times[i].append(sides[i].seconds(iterations))
    finally:
        for side in sides:
            side.close()
    rates = [
        iterations * side.steps_per_iteration / statistics.median(taken)
        for side, taken in zip(sides, times, strict=True)
    ]
    ratio = statistics.median(before / after for before, after in zip(*times, strict=True))
    return Round((rates[0], rates[1]), ratio, (sides[0].compile_s, sides[1].compile_s))


def burst(side: Side) -> int:
    """How many iterations take about `BURST_S`."""
    iterations = 1
    while (taken := side.seconds(iterations)) < BURST_S / 2:
        iterations *= 2
    return max(round(iterations * BURST_S / taken), 1)


class Parser(argparse.ArgumentParser):
    """Says a mistake in one line, without the package: what is imported of it is the other tree's."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}\n")


def of_ours(workload: list[str]) -> tuple[Any, int, int]:
    """Hparams, seed and environment steps before it is measured, of what ours.py takes."""
    sys.argv = ["ours.py", *workload]
    import ours

    args = ours.parse()
    return ours.resolve_hparams(args), args.seed, WARM_STEPS


def named_set(name: str) -> tuple[Any, int, int]:
    """The same of a named set: it is measured once its memory gives batches."""
    from rl.hparams.merge import resolve

    hparams = resolve(name, {})
    filled = max(getattr(hparams, "min_replay_size", 0), getattr(hparams, "random_steps", 0))
    return hparams, 1, filled + hparams.num_envs


def main() -> None:
    """Plays one side: see the module's docstring."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", metavar="TREE", help="root of a checkout of this project")
    text = "what its benchmarks/ours.py takes, or set and the name of one"
    parser.add_argument("workload", nargs=argparse.REMAINDER, metavar="WORKLOAD", help=text)
    typed = parser.parse_args()
    tree, workload = typed.tree, typed.workload
    if not Path(tree, "benchmarks", "ours.py").exists():
        parser.error(f"{tree} is no checkout of this project: there is no benchmarks/ours.py")
    if workload == ["set"]:
        parser.error("set: name one of that tree's sets of hparams, such as dqn_cartpole")
    if not workload:
        parser.error(f"name a workload of {tree}/benchmarks/ours.py, such as dqn")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    here = str(Path(__file__).parent)
    sys.path[:] = [f"{tree}/benchmarks", tree, *(each for each in sys.path if each != here)]
    with contextlib.suppress(ImportError):  # of trees that have none
        from rl.imports import import_tensorflow

        import_tensorflow()  # as the command line does
    hparams, seed, warm_steps = named_set(workload[1]) if workload[0] == "set" else of_ours(workload)
    from rl.runners.build import build_runner

    begun = time.perf_counter()
    runner = build_runner(hparams, seed)
    runner.run(1)
    compiled = time.perf_counter() - begun
    while runner.step < warm_steps:
        runner.run(max(warm_steps // runner.steps_per_iteration // 4, 1))
    print(f"{MARK}{compiled:.3f} {runner.steps_per_iteration}", flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        runner.run(int(line))
        print(f"{MARK}{time.perf_counter() - begun:.6f} 0", flush=True)


if __name__ == "__main__":
    main()
