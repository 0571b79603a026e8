"""Sends the metrics that TensorBoard gets to a tracker (`--track`) as well.

That happens in a separate thread: a tracker that fails or does not answer costs a warning, never the run.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.report.trackers import TRACKERS
from rl.storage.files import load_json, text_if_sound, write_json_atomic

FILE = "tracker.json"  # in a run's folder: name of a tracker -> the run's id there, and the last step sent
WAITING = 10_000  # rows that may wait for a tracker
PATIENCE = 30.0  # s that the end of a run waits for it
PAUSES = 1.0, 4.0  # s before it is tried again to begin with a tracker
_log = logging.getLogger("rl.logger")


class Tracking:
    """Sends the log of the run in `folder` to the tracker called `kind`, in a separate thread.

    name: the run's name in the tracker.
    resumed: whether to continue the tracker's run that `folder` names; rows up to the last step that was sent
        are not sent again.
    """

    def __init__(self, kind: str, folder: Path, name: str, resumed: bool):
        self._kind, self._folder, self._name = kind, folder, name
        self._known = _known(folder) if resumed else {}
        self.new = kind not in self._known  # whether the tracker has not heard of the run
        self._waiting: queue.Queue[tuple[int | None, Mapping[str, Any]] | None] = queue.Queue(WAITING)
        self._given_up = False
        self._thread = threading.Thread(target=self._serve, name=f"rl-track-{kind}", daemon=True)
        self._thread.start()

    def hparams(self, values: Mapping[str, Any]) -> None:
        """Takes the hyperparameters of a run that begins."""
        self._put((None, values))

    def row(self, step: int, values: Mapping[str, float]) -> None:
        """Takes a row of metrics."""
        self._put((step, values))

    def close(self) -> None:
        """Waits until all is sent, PATIENCE seconds at most."""
        self._put(None)
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._give_up(f"it did not take everything within {PATIENCE:.0f} s")

    def _put(self, item: tuple[int | None, Mapping[str, Any]] | None) -> None:
        try:
            if not self._given_up:
                self._waiting.put_nowait(item)
        except queue.Full:
            self._give_up(f"it does not answer, {WAITING:,} rows wait")

    def _give_up(self, why: str) -> None:
        if not self._given_up:
            self._given_up = True
            _log.warning("--track %s: %s: nothing more is sent there; the run goes on", self._kind, why)

    def _serve(self) -> None:
        try:
            mine = self._known.get(self._kind, {})
            tracker = self._begun(mine.get("id"))
            sent = int(mine.get("step", -1))
            self._keep(tracker.id, sent)
            while (item := self._waiting.get()) is not None and not self._given_up:
                step, values = item
                if step is None:
                    tracker.hparams(values)
                elif step > sent:
                    tracker.row(step, values)
                    sent = step
                    self._keep(tracker.id, sent)
            if not self._given_up:
                tracker.close()
        except Exception as error:
            self._give_up(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")

    def _begun(self, run_id: str | None) -> Any:
        """Returns the tracker, tried again where it fails: two runs that begin at once may both find that
        there is no database yet, and the second one cannot make it."""
        for pause in PAUSES:
            try:
                return TRACKERS[self._kind](self._folder, self._name, run_id)
            except Exception:
                time.sleep(pause)
        return TRACKERS[self._kind](self._folder, self._name, run_id)

    def _keep(self, run_id: str, step: int) -> None:
        self._known[self._kind] = {"id": run_id, "step": step}
        write_json_atomic(self._folder / FILE, self._known)


def _known(folder: Path) -> dict[str, dict[str, Any]]:
    """Reads which runs of trackers a run has; none where the file is not there or damaged."""
    try:
        found = load_json(text_if_sound(folder / FILE) or "{}")
        return {str(key): {"id": str(each["id"]), "step": int(each["step"])} for key, each in found.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
