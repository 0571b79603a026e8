"""Recording of rollouts as episodes of a data set; a crash loses no finished episode.

Steps are appended to a journal as they are played (`rl.data.journal`). A journal becomes a shard of the data
set (`rl.data.shards`) when the recording ends, when the journal is large, or, after a crash, at the next
recording. A resumed run cuts its journal back to the checkpoint's step, and continues the episodes that were
running there.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from rl.data import hdf5, journal, shards, stored
from rl.data.metadata import MAIN, METADATA, options_of, read_metadata, totals, write_metadata
from rl.data.rows import Rows, join
from rl.data.spaces import from_zero, map_space, part, parts, to_json
from rl.errors import UsageError
from rl.storage.files import PATIENCE, ensure_writable_dir, folder_lock
from rl.types import Nest

_log = logging.getLogger("rl.data")
WAITING = 16 << 20  # bytes of unfinished episodes in memory, above which they are written
LARGE = 256 << 20  # bytes from which a journal becomes a shard while the recording goes on


class Recorder:
    """Records the rollouts of one process, from `begin` to `close`.

    Args:
        folder: of the data set, which may exist; others may record into it at the same time.
        observation_space, action_space: of one environment, as agents see them.
        metadata: of the data set, where it is new (rl.data.metadata).
        policy: an entry of the metadata's `policies`, which describes the policy that acts.
        owner: the address of a run that may be resumed; empty: the recording is never resumed.
        settings: a hash that distinguishes this run from earlier runs at the same address.

    Raises:
        UsageError: the data set holds episodes of another environment, or the same ones. Nothing is written.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        observation_space: spaces.Space,
        action_space: spaces.Space,
        metadata: dict[str, Any],
        policy: dict[str, Any],
        owner: str = "",
        settings: int = 0,
    ):
        self.folder = Path(folder)
        self._data = self.folder / "data"
        self._spaces = map_space(observation_space, lambda each: each), map_space(action_space, from_zero)
        self._metadata, self._head = metadata, {"owner": owner, "settings": settings, "policy": policy}
        self._owner = owner
        self._observed = [path for path, _ in parts(self._spaces[0])]
        self._acted = list(parts(self._spaces[1]))
        self._journal: journal.Journal | None = None
        self._number = self._begun = 0  # its number; bytes of it before anything was added
        self._waiting: list[Rows] = []
        self._bytes = 0
        for space in self._spaces:
            to_json(space)
        self._check()

    def _check(self) -> None:
        if (self.folder / METADATA).is_file():
            raise UsageError(
                f"{self.folder} holds a data set's own files: name the folder it is in, or another"
            )
        if not (self._data / METADATA).exists():
            if (self._data / MAIN).exists() and stored.has_episodes(self._data):
                raise UsageError(f"{self._data} has {MAIN} but no {METADATA}: record into another folder")
            return
        found = read_metadata(self._data)
        there, here = found.get("env_id"), self._metadata.get("env_id")
        alike = [to_json(found[f"{name}_space"]) for name in ("observation", "action")]
        if there not in (None, here) or alike != [to_json(each) for each in self._spaces]:
            raise UsageError(
                f"{self.folder} holds episodes of {there or 'an environment with other spaces'}, not of "
                f"{here}{' as it is here' if there == here else ''}: record into another folder"
            )
        before, now = options_of(found), options_of(self._metadata)
        if there is not None and before != now:
            raise UsageError(
                f"{self.folder} holds episodes of {here} with {before}, not with {now}: record into another "
                "folder"
            )
        if not self._owner and self._head["policy"] in (found.get("policies") or []):
            raise UsageError(
                f"{self.folder} holds this policy's episodes already, and the same ones would be played "
                "again: record into another folder, or others by another seed (rl.load(...).evaluate)"
            )
        if found.get("jpeg_encoding", True) and any(
            hdf5.is_picture(each) for _, each in parts(self._spaces[0])
        ):
            raise UsageError(f"{self.folder} holds pictures as JPEG: record into another folder")

    def check_writable(self) -> None:
        """Makes the folder. Raises UsageError where it cannot be written, with nothing left of it."""
        ensure_writable_dir(self._data, "--record_data")

    def begin(self, step: int = 0) -> None:
        """Opens the data set, or makes it; the journals of crashed recordings become part of it.

        step: environment steps of the run so far; later steps of this run's own journal are cut off.

        Raises:
            UsageError: it cannot be written (Unavailable where that may pass).
        """
        self.check_writable()
        with folder_lock(self._data, wait=True):
            self._check()
            if not (self._data / METADATA).exists():
                self._make()
            found = self._own_journal(step)
            if found is None:
                self._number = stored.next_number(self._data)
                self._journal = journal.Journal(stored.journal_path(self._data, self._number))
                self._journal.append(journal.HEAD, self._head)
            else:
                self._number, size = found
                self._journal = journal.Journal(stored.journal_path(self._data, self._number), size)
            self._begun = self._journal.size

    def start_over(self) -> None:
        """Drops everything that was added since `begin`, before the same episodes are played again. Raises as
        `add`."""
        self._waiting, self._bytes = [], 0
        if self._journal is not None:
            self._journal.cut(self._begun)

    def _make(self) -> None:
        """Writes the metadata first: a data set without main_data.hdf5 is one without episodes."""
        observations, actions = self._spaces
        spaces_of = {"observation_space": observations, "action_space": actions}
        described = {**self._metadata, **spaces_of, "jpeg_encoding": False}
        write_metadata(self._data, {**described, **totals(0, 0, self._data)})
        shards.write_main(self._data, {}, [])

    def _own_journal(self, step: int) -> tuple[int, int] | None:
        """Returns the number of the journal to continue, and how many bytes of it stay; turns journals that
        nobody continues into shards."""
        mine = None
        for path in stored.journals(self._data):
            number = stored.number_of(path)
            head = journal.head(path)
            owner = head.get("owner", "")
            if owner and owner == self._owner:
                self._wait_for(path)
                size = journal.until(path, step) if step or head == self._head else None
                if mine is not None:  # a crash came between its making and the end of the one before
                    os.unlink(path)
                elif size is not None and not stored.is_folded(self._data, number):
                    mine = number, size
                else:
                    self._fold(path, step)
            elif not owner and not journal.is_open(path):
                if head == self._head:  # it crashed, and the same episodes are played again now
                    os.unlink(path)
                else:
                    self._fold(path, 0)
        return mine

    def _fold(self, path: Path, step: int) -> None:
        if step:
            _log.warning("%s: what this run recorded after step %s is there twice", self.folder, f"{step:,}")
        shards.fold(self._data, stored.number_of(path))

    def _wait_for(self, path: Path) -> None:
        deadline = time.monotonic() + PATIENCE
        while journal.is_open(path):
            if time.monotonic() >= deadline:
                raise UsageError(f"another process records {self._owner} into {self.folder}: end it first")
            time.sleep(0.2)

    def add(
        self,
        step: int,
        observation: Nest,
        action: Nest,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        mask: np.ndarray,
        fresh: bool = False,
        log_prob: np.ndarray | None = None,
        agents: int = 1,
    ) -> None:
        """Records S steps of B environments, which follow those before.

        Args:
            step: environment steps before them.
            observation: [S + 1, B, ...].
            action: [S, B, ...], as the agent chose them; Box actions are recorded clipped to the bounds, as
                the environment clips them.
            reward, terminated, truncated: [S, B].
            mask: [S, B], 0 where a row is no step.
            fresh: whether they begin with fresh episodes, and running ones are cut off.
            log_prob: [S, B], of the actions, by the policy that took them; None: unknown. In journals it is
                the last column of the actions.
            agents: how many of the B rows form one environment; each row has its own episodes.

        Raises:
            UsageError: the journal cannot be written (Unavailable where that may pass).
        """
        columns = [_bounded(space, np.array(part(action, path))) for path, space in self._acted]
        rows = Rows(
            step,
            [np.array(part(observation, path)) for path in self._observed],
            columns if log_prob is None else [*columns, np.array(log_prob, np.float32)],
            np.array(reward, np.float32),
            np.array(terminated, bool),
            np.array(truncated, bool),
            np.array(mask, bool),
            fresh,
            agents,
        )
        if fresh:
            self._write()
        self._waiting.append(rows)
        self._bytes += sum(each.nbytes for each in (*rows.observation, *rows.action, rows.reward))
        if self._bytes >= WAITING or rows.ends.any():
            self._write()

    def _write(self) -> None:
        if self._waiting and self._journal is not None:
            self._journal.append_rows(join(self._waiting))
        self._waiting, self._bytes = [], 0

    def flush(self) -> None:
        """Fsyncs everything that was added, before a checkpoint of the same step is written. Raises as
        `add`."""
        if self._journal is not None:
            self._write()
            self._journal.sync()

    def saved(self) -> None:
        """Turns a large journal into a shard; call it after the checkpoint was written. Raises as `add`."""
        if self._journal is not None and self._journal.size >= LARGE:
            self._end(go_on=True, reopen=True)

    def close(self, go_on: bool = False) -> None:
        """Ends the recording; its episodes are then in the data set for all readers.

        go_on: whether the run may be resumed, and may then finish the episodes that are running now.

        Raises:
            UsageError: it cannot be written (Unavailable where that may pass); the journal keeps it.
        """
        if self._journal is None:
            return
        try:
            self.flush()
            self._end(go_on)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Closes the journal without finishing it, after a failure."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _end(self, go_on: bool, reopen: bool = False) -> None:
        assert self._journal is not None
        with folder_lock(self._data, wait=True):
            following = shards.fold(self._data, self._number, reopen or (go_on and bool(self._owner)))
            self.abandon()
            if following is not None and reopen:
                self._number, self._journal = stored.number_of(following.path), following
                self._begun = following.size
            elif following is not None:
                following.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _bounded(space: spaces.Space, action: np.ndarray) -> np.ndarray:
    return np.clip(action, space.low, space.high) if isinstance(space, spaces.Box) else action
