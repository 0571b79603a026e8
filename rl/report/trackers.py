"""Trackers of experiments that `--track` names, each as one small class: Weights & Biases, MLflow, Trackio.

Their packages are imported where a run begins there; `rl.report.tracking` talks to them.
"""

from __future__ import annotations

import importlib.util
import os
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from rl.errors import UsageError, nearest

PROJECT = "rl"  # where no variable of the tracker's own names another one


class Tracker(Protocol):
    """A run in a tracker. Any method may raise whatever its package raises.

    Attributes:
        id: by which it is found again.
    """

    id: str

    def hparams(self, values: Mapping[str, Any]) -> None:
        """Is told of the hyperparameters, by dotted names: numbers, booleans and text."""

    def row(self, step: int, values: Mapping[str, float]) -> None:
        """Is told of a row of metrics; steps only grow."""

    def close(self) -> None:
        """Sends what waits, and ends."""


class WandB:
    """A run of Weights & Biases; WANDB_PROJECT names its project."""

    def __init__(self, folder: Path, name: str, run_id: str | None):
        import wandb

        project = os.environ.get("WANDB_PROJECT", PROJECT)
        quiet = wandb.Settings(silent=True, console="off")
        resume = None if run_id is None else "allow"
        self._run = wandb.init(
            project=project, name=name, dir=str(folder), id=run_id, resume=resume, settings=quiet
        )
        self.id = str(self._run.id)

    def hparams(self, values: Mapping[str, Any]) -> None:
        self._run.config.update(dict(values), allow_val_change=True)

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


class MLflow:
    """A run of MLflow, at MLFLOW_TRACKING_URI; MLFLOW_EXPERIMENT_NAME names its experiment."""

    def __init__(self, folder: Path, name: str, run_id: str | None):
        from mlflow import MlflowClient

        self._client = MlflowClient()
        if run_id is None:
            wanted = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
            found = self._client.get_experiment_by_name(wanted)
            experiment = found.experiment_id if found else self._client.create_experiment(wanted)
            run_id = self._client.create_run(experiment, run_name=name).info.run_id
        else:
            self._client.update_run(run_id, "RUNNING")
        self.id = run_id

    def hparams(self, values: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        given = [Param(key, str(value)[:6000]) for key, value in values.items()]
        for first in range(0, len(given), 100):  # the most that a call takes
            self._client.log_batch(self.id, params=given[first : first + 100])

    def row(self, step: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self._client.log_batch(self.id, [Metric(key, value, now, step) for key, value in values.items()])

    def close(self) -> None:
        self._client.set_terminated(self.id)


class Trackio:
    """A run of Trackio, which knows runs by their names; TRACKIO_PROJECT names its project."""

    def __init__(self, folder: Path, name: str, run_id: str | None):
        import trackio

        self.id = run_id or f"{name.replace('/', '-')}-{uuid.uuid4().hex[:8]}"
        project, resume = os.environ.get("TRACKIO_PROJECT", PROJECT), "never" if run_id is None else "allow"
        self._run = trackio.init(project=project, name=self.id, resume=resume, embed=False)

    def hparams(self, values: Mapping[str, Any]) -> None:
        self._run.config.update(values)

    def row(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


# Name, which is the package's: (folder, name of the run, id of the one to go on with) -> tracker.
TRACKERS: dict[str, Callable[[Path, str, str | None], Tracker]] = {
    "wandb": WandB,
    "mlflow": MLflow,
    "trackio": Trackio,
}


def check_tracker(name: str, here: bool = True) -> None:
    """Raises UsageError for a tracker that is unknown, or (here) whose package is not installed."""
    if name not in TRACKERS:
        raise UsageError(f"--track {name}: {nearest(name, TRACKERS)}")
    if here and importlib.util.find_spec(name) is None:
        raise UsageError(
            f"--track {name}: the package {name} is not installed: ./setup.sh uv pip install {name}"
        )
