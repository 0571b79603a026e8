"""Detects NaN and infinity in a run, and chooses the checkpoint to which the run goes back.

The compiled function skips updates with NaN or infinity (`rl.agents.guard`). A run is in trouble after
`nan_patience` skipped updates in a row, or once its state (networks, optimizers, statistics) or its metrics
are not finite. Both are checked after each window, and before each checkpoint within one.

A checkpoint is healthy once updates from its weights were made: at a later check some had been made, and the
last one was not skipped. Finite weights alone prove nothing, since all updates from them may be skipped. The
newest healthy checkpoint is always kept, and a run in trouble goes back to it. If none has been healthy yet,
it goes back to the oldest one that exists.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.errors import Diverged, NotFinite, Unavailable, UsageError
from rl.hparams.hparams import HParams
from rl.runners.base import Runner
from rl.runners.finite import FiniteCheck
from rl.storage.checkpoint import CheckpointManager

_log = logging.getLogger("rl")

# Experience and environments: updates that meet NaN there are skipped, until it is overwritten.
PASSING = ("memory/", "env/", "host/", "data/")


class Health:
    """Checks a run for NaN and infinity, and marks its healthy checkpoints.

    Args:
        runner: what trains.
        checkpoints: of the run; the newest healthy one is marked to be kept.
        hparams: `nan_patience` and the other hyperparameters of going back.
    """

    def __init__(self, runner: Runner, checkpoints: CheckpointManager, hparams: HParams):
        state = {name: each for name, each in runner.variables.items() if not _passes(name)}
        self.finite, self._runner, self._guard = FiniteCheck(state), runner, runner.agent.guard
        self._checkpoints, self._hparams = checkpoints, hparams
        self._unproven: int | None = None  # step of the newest checkpoint, until it is healthy
        self._made = self._guard.made  # updates of this process that were made before it

    def resume(self, meta: Mapping[str, Any], step: int) -> None:
        """Restores what `saved` put into the meta of a checkpoint of that step; earlier versions put
        nothing."""
        self._guard.resume(meta.get("guard"))
        self._checkpoints.kept = meta.get("healthy")
        self._unproven = step

    def saved(self) -> dict[str, Any]:
        """Returns what a checkpoint must know, for JSON."""
        return {"guard": self._guard.saved(), "healthy": self._checkpoints.kept}

    def wrote(self, step: int) -> None:
        """Is called after a checkpoint of that step has been written."""
        self._unproven, self._made = step, self._guard.made

    def look(self, row: Mapping[str, float]) -> str:
        """Describes the trouble, empty where there is none; `row`: the window's metrics so far."""
        in_a_row, patience = self._guard.in_a_row, self._guard.patience
        if in_a_row >= patience:
            return f"{patience} updates in a row were left out: {self._guard.first()} was NaN or infinite"
        trouble = self.finite.trouble(row)
        proven = not trouble and not in_a_row and self._guard.made > self._made
        if proven and self._unproven is not None:
            self._checkpoints.kept, self._unproven = self._unproven, None
        return trouble

    def skipped(self) -> dict[str, float]:
        """Returns the metric of updates that were skipped since the last row, and warns of them; empty if
        none was."""
        count = self._guard.skipped
        if not count:
            return {}
        first, step = self._guard.first(), self._runner.step
        _log.warning("step %s: updates left out: %s; %s was NaN or infinite", f"{step:,}", count, first)
        return {"train/skipped_updates": count}

    def gone_back(self, trouble: Diverged) -> None:
        """Lowers the learning rates of the iterations that follow; called once the checkpoint that `trouble`
        names has been restored."""
        guard = self._guard
        guard.rollbacks = trouble.rollbacks
        guard.go_on(trouble.lr_scale)

    def verdict(self, trouble: str) -> NotFinite:
        """Returns the exception to raise for a run in trouble."""
        hparams, step, gone_back = self._hparams, self._runner.step, self._guard.rollbacks
        steps = self._checkpoints.steps()
        kept, most = self._checkpoints.kept, hparams.nan_max_rollbacks
        target = kept if kept in steps else min(steps, default=None)
        where = "there is no checkpoint"
        if target is not None:
            where = f"the checkpoint of step {max(steps):,} is kept"
            if gone_back < most:
                scale = float(self._guard.lr_scale.numpy()) * hparams.nan_lr_factor
                text = (
                    f"step {step:,}: {trouble}. Going back to the checkpoint of step {target:,}, with "
                    f"learning rates {scale:g} times those of the hparams ({gone_back + 1} of {most} times)"
                )
                return Diverged(text, target, gone_back + 1, scale)
        tried = f" after rollback {gone_back} of {most}" if gone_back else ""
        return NotFinite(
            f"step {step:,}: {trouble}. Training stopped{tried}, {where}. Look at the environment's rewards "
            "and observations, or take a smaller lr or max_grad_norm, normalize_reward or "
            "normalize_observation (docs/debugging.md)"
        )


def _passes(name: str) -> bool:
    return name.startswith(PASSING) or (
        name.startswith("device_") and name.partition("/")[2].startswith(PASSING)
    )


def go_back(folder: Path, trouble: Diverged) -> None:
    """Removes the checkpoints in `folder` after the one that a run in trouble goes back to, or the newest
    before it that is whole.

    Raises:
        NotFinite: none is, and all are left in place.
    """
    try:
        CheckpointManager(folder).go_back(trouble.back_to)
    except Unavailable:
        raise
    except UsageError as error:
        raise NotFinite(f"{trouble}; but {error}: the checkpoints are left as they are") from error
