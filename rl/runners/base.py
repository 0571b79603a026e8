"""What every runner offers the trainer, and the shapes that they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import tensorflow as tf

from rl.data.recorder import Recorder
from rl.envs.agents import SUM
from rl.errors import EnvironmentFailed, UsageError
from rl.ops.loops import ADDED, NONE, MetricPack, places
from rl.parallel.devices import Devices
from rl.runners.from_data import Fingerprint
from rl.runners.from_expert import Manner
from rl.runners.iteration import Iteration
from rl.runners.own_returns import OwnReturns

# `Runner.advance` calls it now and then with the number of iterations it has made: False ends `advance`.
GoOn = Callable[[int], bool]


class Runner:
    """Runs iterations: a rollout of `rollout_length` steps in `num_envs` environments, then learning.

    All its state is in `variables`, and the metrics of the current window in `unfinished`; with in-graph
    environments, restoring both continues the run bit for bit. `step` counts environment steps, autoreset
    steps included, so that it is known in advance.
    """

    backend = ""  # of the environments: "graph", "envpool" or "gym"
    starting = "compiling ..."  # what a person is told before the first iteration, which takes longer
    pack: MetricPack  # names the metrics
    recorder: Recorder | None = None  # of what is played
    fingerprint: Fingerprint | None = None  # of the data that it learns from
    manner: Manner | None = None  # of the expert that it asks
    own_returns: OwnReturns | None = None  # of each agent, where there are many
    # The error that ended the last call of `advance`. The next call raises it, after a checkpoint in between.
    failed: EnvironmentFailed | None = None

    def __init__(self, iteration: Iteration, devices: Devices | None = None):
        self.iteration, self.devices = iteration, Devices() if devices is None else devices
        self.agent, self.memory = iteration.agent, iteration.memory
        self.steps_per_iteration = iteration.steps_per_iteration
        self._totals = [MetricPack.empty()]  # packed metrics of the window under way, by device
        self._kinds: dict[str, str] = {}  # of its metrics, where it was begun before a restart
        self._began_without_extremes = False  # whether a version that noted none began it

    @property
    def variables(self) -> dict[str, Any]:
        """All state by name, for checkpoints."""
        data = {} if self.fingerprint is None else {"data/fingerprint": self.fingerprint.variable}
        return self.devices.named(self.iteration.variables | self._of_agents) | data | self._of_expert

    @property
    def newer(self) -> Collection[str]:
        """Returns the names of variables that checkpoints of earlier versions lack, of floats, for which NaN
        stands then."""
        return self.devices.named(self._of_agents) | self._of_expert

    @property
    def _of_expert(self) -> dict[str, Any]:
        return {} if self.manner is None else {"data/expert_manner": self.manner.variable}

    @property
    def _of_agents(self) -> dict[str, Any]:
        return {} if self.own_returns is None else self.own_returns.variables

    def appended(self) -> dict[str, int]:
        """Returns the append-only variables, by name, each with the number of rows ever appended to it."""
        return self.devices.appended(
            {f"memory/{name}": rows for name, rows in self.memory.appended().items()}
        )

    @property
    def step(self) -> int:
        return self.made * self.steps_per_iteration

    @property
    def made(self) -> int:
        """Iterations so far."""
        return int(self.iteration.number.numpy())

    def advance(self, iterations: int, go_on: GoOn | None = None) -> int:
        """Makes `iterations` iterations, fewer where `go_on` says so; returns how many.

        In-graph runs and their sums are the same to the bit, however many calls the iterations are split
        over.

        Raises:
            EnvironmentFailed: environments fail; if iterations of this call were made before, the next call
                raises it.
        """
        raise NotImplementedError

    def sums(self) -> dict[str, float]:
        """Returns the metrics since the window began, means as sums over updates; metrics without a value are
        left out."""
        kinds = self._kinds_so_far()
        total = MetricPack(kinds).over_devices(self._totals)
        found = {name: i for name, i in places(kinds).items() if i < ADDED or total[i] != NONE}
        values = {name: total[place] for name, place in found.items()}
        sums = {name: float(-x if kinds[name] == "min" else x) for name, x in values.items()}
        return sums if self.own_returns is None else sums | self.own_returns.sums(self.devices)

    def row(self) -> dict[str, float]:
        """Returns the window's row for the log; metrics without data are left out."""
        rest, kinds = self.sums(), self._kinds_so_far()
        updates, row = rest.pop("updates", 0.0), {}  # none: environments failed before anything was learned
        episodes = rest.pop("episodes", None)  # None: nothing is played
        rest.pop("transitions", None)
        sums = {name: rest.pop(f"episode_{name}", 0.0) for name in ("return", "length")}
        own = {name.removeprefix(SUM): rest.pop(name) for name in [*rest] if name.startswith(SUM)}
        least, most = (rest.pop(f"episode_return_{name}", None) for name in ("min", "max"))
        if episodes is not None:
            row = {"episode/count": episodes}
        if episodes:
            row |= {f"episode/{name}_mean": total / episodes for name, total in sums.items()}
            known = {name: total for name, total in own.items() if not math.isnan(total)}
            row |= {f"episode/return_{name}": total / episodes for name, total in known.items()}
        if least is not None and most is not None and not self._began_without_extremes:
            row |= {"episode/return_min": least, "episode/return_max": most}
        if updates:
            means = {name: x / updates for name, x in rest.items() if kinds[name] == "mean"}
            row |= {f"train/{name}": x for name, x in sorted((rest | means).items())}
        return row

    def begin_window(self) -> None:
        """Sets the sums to 0."""
        self._totals = [MetricPack.empty() for _ in self._totals]
        if self.own_returns is not None:
            self.own_returns.begin_window(self.devices)
        self._began_without_extremes = False

    def run(self, iterations: int) -> dict[str, float]:
        """Makes `iterations` iterations as a window of their own; returns their sums."""
        self.begin_window()
        self.advance(iterations)
        return self.sums()

    def unfinished(self) -> dict[str, Any]:
        """Returns the metrics of the window under way, for JSON: float32 values are kept to the bit."""
        kinds = self._kinds_so_far()
        values = [[_or_none(total[place]) for place in places(kinds).values()] for total in self._totals]
        return {"kinds": kinds, "sums": values}

    def resume_window(self, found: dict[str, Any]) -> None:
        """Restores the metrics that `unfinished` returned; they are dropped if the number of devices
        changed."""
        self._began_without_extremes = "kinds" not in found  # by a version that knew of no other kinds
        if len(found["sums"]) != len(self._totals):
            return
        self._kinds = found.get("kinds") or {name: _former_kind(name) for name in found["names"]}
        for total, values in zip(self._totals, found["sums"], strict=True):
            for place, value in zip(places(self._kinds).values(), values, strict=True):
                total[place] = NONE if value is None else value

    def _kinds_so_far(self) -> dict[str, str]:
        """Returns how metrics add up, also where the window was begun before a restart and nothing was made
        since."""
        return self.pack.kinds or self._kinds

    def _add(self, vectors: list[np.ndarray]) -> None:
        """Takes an iteration's packed metrics, of each device, into those of the window."""
        self.pack.add(self._totals[0], self.pack.over_devices(vectors))

    def scalars(self) -> dict[str, float]:
        """Returns what else is logged with every row, since the last one."""
        return {}

    def save(self, address: str) -> None:
        """Saves state that is not in `variables`; called after these were written to a checkpoint of the run
        at that address (usually a folder)."""

    def restored(self, address: str) -> None:
        """Is called after a checkpoint of the run at that address has been read into `variables`.

        Raises:
            UsageError: it learned from other data, or of another expert.
        """
        if self.fingerprint is not None:
            self.fingerprint.check(address)
        if self.manner is not None:
            self.manner.check(address)

    def started_from_another(self) -> None:
        """Is called after another run's weights have been read into the agent of a run that begins."""

    @property
    def repeatable(self) -> bool:
        """Says whether `begin_as` can restart it: all its state is in `variables` and the agent's guard."""
        return False

    def begin_as(self, fresh: Runner) -> None:
        """Takes over the initial state of another runner, which differs only in its seed, and keeps the
        compiled functions. Only if `repeatable`."""
        start = fresh.variables
        for name, variable in self.variables.items():
            variable.assign(tf.convert_to_tensor(start[name]))
        self.agent.guard.resume(fresh.agent.guard.saved())
        self.iteration.reseed(fresh.iteration.seed)
        self._kinds = {}
        self.begin_window()

    def record_to(self, recorder: Recorder) -> None:
        """Records all further rollouts with a recorder. Raises UsageError where this runner cannot."""
        raise UsageError("--record_data: nothing is played in this process: leave it out")

    def close(self) -> None:
        """Frees what the runner holds outside TensorFlow."""
        self.devices.close()


def _former_kind(name: str) -> str:
    """Returns how a metric adds up in a checkpoint that does not say."""
    return "sum" if name in ("episodes", "episode_return", "episode_length", "transitions") else "mean"


def _or_none(value: np.float32) -> float | None:
    return None if value == NONE else float(value)
