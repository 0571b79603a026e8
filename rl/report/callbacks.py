"""What a caller's own code sees of a run while it is trained (`rl.train(..., callbacks=...)`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rl.runners.evaluate import Evaluation


class Callbacks:
    """Is told what a run comes to; a subclass writes the methods that it needs.

    They are called in the process that trains, between two calls of the compiled loop. One that returns True
    ends the training after the window under way, with a checkpoint, as if its steps were made. An error in
    one ends the run with that error, after a checkpoint.
    """

    def on_evaluation(self, step: int, evaluation: Evaluation) -> bool | None:
        """Is told of the episodes of an evaluation; `step`: environment steps made. Before `on_row`."""

    def on_row(self, step: int, row: dict[str, float]) -> bool | None:
        """Is told of a row of metrics, as metrics.csv has it, after each `log_period` environment steps."""

    def on_checkpoint(self, step: int, folder: Path) -> bool | None:
        """Is told of a checkpoint that is whole, by its folder; newer ones take its place in time."""
