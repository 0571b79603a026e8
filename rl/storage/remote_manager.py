"""Numbered checkpoints of a process that may be on any machine, such as a buffer: sent as they are saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rl.errors import UsageError
from rl.storage import remote, staging
from rl.storage.address import is_remote, join
from rl.storage.checkpoint import CheckpointError, CheckpointManager, Variables
from rl.storage.manifest import Damaged
from rl.storage.remote_checkpoint import by_step, get_newest, prune, put_checkpoint


def checkpoints_at(address: str, keep: int) -> CheckpointManager:
    """The manager of a folder of this machine, or of a remote address."""
    return RemoteManager(address, keep) if is_remote(address) else CheckpointManager(address, keep)


class RemoteManager(CheckpointManager):
    """As `CheckpointManager`, but what counts is remote: what this machine may have of it is removed first.

    Raises:
        UsageError: the folder of this machine that it needs cannot be made.
    """

    def __init__(self, address: str, keep: int):
        folder = staging.staging_folder(address)
        staging.make(folder)
        staging.empty(folder)
        super().__init__(folder, keep)
        self._address = address

    def save(
        self,
        variables: Variables,
        step: int,
        meta: Mapping[str, Any] | None = None,
        appended: Mapping[str, int] | None = None,
    ) -> Path:
        """As of the base class; returns once it is remote. Raises CheckpointError where it cannot be sent."""
        path = super().save(variables, step, meta, appended)
        try:
            put_checkpoint(path, join(self._address, path.name))
            prune(self._address, set(by_step(os.listdir(self.directory))))
        except (remote.RemoteError, Damaged) as error:
            raise CheckpointError(f"checkpoint {path.name} is not at {self._address}: {error}") from error
        return path

    def restore(self, variables: Variables, partial: bool = False) -> dict[str, Any] | None:
        """As of the base class. Raises UsageError also where nothing can be read."""
        try:
            get_newest(self._address, self.directory)
        except remote.RemoteError as error:
            raise UsageError(str(error)) from error
        return super().restore(variables, partial)

    def close(self) -> None:
        """Removes what this machine has of it."""
        staging.empty(self.directory)
