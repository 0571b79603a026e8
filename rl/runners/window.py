"""The iterations between two rows of metrics."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

from rl.hparams.hparams import HParams
from rl.report.progress import Progress
from rl.runners.base import Runner

LOOK = 0.2  # seconds between two looks at the clock


class Window:
    """`log_period` environment steps, rounded up to whole iterations; the last one ends with training.

    It may be interrupted and continued, also in another process (`saved`, `resume`): its row contains the
    sums over all its iterations.

    Attributes:
        iterations: how many were made.
        seconds: how long they took.
        gap: seconds between the last two moments at which it could have been interrupted.
        begun: whether this process has made an iteration, the first of which compiles.
    """

    def __init__(self, runner: Runner, hparams: HParams):
        self._runner, self._hparams = runner, hparams
        self.iterations, self.seconds, self.gap = 0, 0.0, 0.0
        self.begun = self._told = False  # _told: whether the message of the first iteration was shown

    @property
    def steps(self) -> int:
        """Environment steps that it has had."""
        return self.iterations * self._runner.steps_per_iteration

    def run(self, progress: Progress, is_over: Callable[[], bool]) -> bool:
        """Makes the remaining iterations; returns False if `is_over`, called now and then, interrupted it."""
        runner, start, at = self._runner, self._runner.step, time.perf_counter()
        length = runner.steps_per_iteration
        left = -(-self._hparams.log_period // length) - self.iterations
        left = min(left, -(-(self._hparams.train_steps - start) // length))
        if left <= 0:  # it was interrupted after its last iteration
            return True
        if not self._told:
            self._told = True
            progress.message(runner.starting)
        looked = at

        def go_on(made: int) -> bool:
            nonlocal looked
            now = time.perf_counter()
            if not self.begun and made:
                progress.message(f"first iteration done after {now - at:.1f} s")
            elif now - looked >= LOOK:
                self.gap = now - looked
            if (not self.begun and made) or now - looked >= LOOK:
                self.begun, looked = self.begun or made > 0, now
                progress.update(start + made * length)
            return not is_over()

        made = runner.advance(left, go_on)
        self.iterations, self.seconds = self.iterations + made, self.seconds + time.perf_counter() - at
        return made == left

    def perf(self, updates: float) -> dict[str, float]:
        """Returns rates and memory, for its row; updates: that were made in it."""
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {
            "perf/steps_per_second": self.steps / self.seconds,
            "perf/updates_per_second": updates / self.seconds,
            "perf/peak_memory_mib": memory,
        }

    def finish(self) -> None:
        """Begins the next one."""
        self.iterations, self.seconds = 0, 0.0
        self._runner.begin_window()
        self._runner.agent.guard.begin_window()

    def saved(self) -> dict[str, Any] | None:
        """Returns what a checkpoint must know of it, for JSON; None where it has had no iteration."""
        if not self.iterations:
            return None
        return {"iterations": self.iterations, "seconds": self.seconds, **self._runner.unfinished()}

    def resume(self, found: dict[str, Any] | None) -> None:
        """Goes on with what `saved` gave."""
        if found is not None:
            self.iterations, self.seconds = found["iterations"], found["seconds"]
            self._runner.resume_window(found)
