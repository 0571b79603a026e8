"""The role that hands out weights: workers ask it for the newest version when they need one."""

from __future__ import annotations

from typing import Any, NamedTuple


class Version(NamedTuple):
    """The newest weights."""

    number: int  # updates of the learner: its iteration
    step: int  # environment steps of the run so far, for exploration schedules
    flat: Any  # list of one object reference: the policy's variables, float32 [n]


class Weights:
    """Keeps the newest version, as a reference: the numbers themselves go from the learner's node to the
    worker's without passing here. A worker that is slow takes whatever is newest when it asks."""

    def __init__(self) -> None:
        self._version: Version | None = None

    def publish(self, version: Version) -> None:
        """Called by the learner."""
        self._version = version

    def newest(self) -> Version | None:
        """Called by workers. None before the first version, and after this process was restarted."""
        return self._version
