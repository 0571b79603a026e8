"""Callbacks: the caller's code during a training run (`rl.train(..., callbacks=...)`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rl.runners.evaluate import Evaluation


class Callbacks:
    """Base of callbacks; a subclass overrides the methods that it needs.

    They are called in the training process, between two calls of the compiled loop. If one returns True, the
    training ends after the current window, with a checkpoint, as if all steps were made. An error in one ends
    the run with that error, after a checkpoint.
    """

    def on_evaluation(self, step: int, evaluation: Evaluation) -> bool | None:
        """Is called after an evaluation, before `on_row`, with its episodes; `step`: environment steps so
        far."""

    def on_row(self, step: int, row: dict[str, float]) -> bool | None:
        """Is called with a row of metrics, as in metrics.csv, after each `log_period` environment steps."""

    def on_checkpoint(self, step: int, folder: Path) -> bool | None:
        """Is called with the folder of a complete checkpoint; later checkpoints replace it in time."""
