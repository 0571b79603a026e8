"""The role that hands out weights: workers ask it for the newest version when they need one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

SMALL = 100_000  # bytes: up to here Ray sends a value along with the call


class Version(NamedTuple):
    """The newest weights."""

    number: int  # updates of the learner: its iteration
    step: int  # environment steps of the run so far, for exploration schedules
    flat: Any  # the policy's variables, float32 [n]; large ones as a list of one object reference

    @staticmethod
    def of(number: int, step: int, flat: np.ndarray) -> Version:
        """Of weights as they are sent: large ones go from the learner's node to the workers' without passing
        `Weights`; for small ones a place in the object store, and the account of who still reads it, would
        cost learner and workers more than the copies do."""
        import ray

        return Version(number, step, flat if flat.nbytes <= SMALL else [ray.put(flat)])

    def weights(self) -> np.ndarray:
        """float32 [n]; fetched where they are large."""
        import ray

        return self.flat if isinstance(self.flat, np.ndarray) else ray.get(self.flat[0])


class Weights:
    """Keeps the newest version. A worker that is slow takes whatever is newest when it asks."""

    def __init__(self) -> None:
        self._version: Version | None = None

    def publish(self, version: Version) -> None:
        """Called by the learner."""
        self._version = version

    def newest(self, known: int = -1) -> Version | int | None:
        """Called by workers, with the number that they have: that number where there is none newer. None
        before the first version, and after this process was restarted."""
        return known if self._version is not None and self._version.number == known else self._version
