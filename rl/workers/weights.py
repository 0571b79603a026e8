"""The weights role: workers ask it for the newest version of the weights when they need one."""

from __future__ import annotations

import logging
import time
from typing import Any, NamedTuple

import numpy as np

log = logging.getLogger("rl.workers")
STARTUP = 120.0  # seconds that a new process may take for its first answer
SMALL = 100_000  # bytes: up to here Ray sends a value along with the call


class Version(NamedTuple):
    """The newest weights."""

    number: int  # updates of the learner: its iteration
    step: int  # environment steps of the run so far, for exploration schedules
    flat: Any  # the policy's variables, float32 [n]; large ones as a list of one object reference

    @staticmethod
    def of(number: int, step: int, flat: np.ndarray) -> Version:
        """Makes a version whose large weights go from the learner's node to the workers' nodes without
        passing through `Weights`. Small weights are copied: for them Ray's object store and its reference
        counting cost more."""
        import ray

        return Version(number, step, flat if flat.nbytes <= SMALL else [ray.put(flat)])

    def weights(self) -> np.ndarray:
        """Returns float32 [n], fetched where they are large."""
        import ray

        return self.flat if isinstance(self.flat, np.ndarray) else ray.get(self.flat[0])


class Weights:
    """Keeps the newest version. A worker that is slow takes whatever is newest when it asks."""

    def __init__(self) -> None:
        self._version: Version | None = None

    def publish(self, version: Version) -> None:
        """Takes the newest version of the weights from the learner."""
        self._version = version

    def newest(self, known: int = -1) -> Version | int | None:
        """Returns the newest version, for a worker that has version `known`; only that number if there is no
        newer one; None before the first version, and after this process was restarted."""
        return known if self._version is not None and self._version.number == known else self._version


class Publisher:
    """The learner's side of the weights role: sends it the newest version, and replaces it if it does not
    answer.

    Args:
        role: handle of the `Weights` actor; Ray restarts it and repeats its unfinished calls.
        timeout: seconds without an answer after which it is replaced.
    """

    def __init__(self, role: Any, timeout: float):
        self.role, self._timeout = role, timeout
        self._version: Version | None = None
        self._answer: Any = None  # reference whose arrival says that it answers
        self._asked = 0.0
        self._answered = False

    def publish(self, number: int, step: int, flat: np.ndarray | None) -> None:
        """Sends the role a new version, without waiting for it.

        Args:
            number: the learner's updates.
            step: environment steps of the run so far.
            flat: the policy's variables, float32 [n]; None: they are those of the last version.
        """
        if flat is not None:
            self._version = Version.of(number, step, flat)
        elif self._version is not None:
            self._version = self._version._replace(number=number, step=step)
        self.role.publish.remote(self._version)

    def tend(self) -> bool:
        """Publishes the newest version again, for a role that was restarted without it; called while no
        rollout arrives. Returns whether the role was replaced just now, so that workers had to wait."""
        import ray

        if self._answer is not None and not ray.wait([self._answer], timeout=0)[0]:
            waited = time.monotonic() - self._asked
            if waited < (self._timeout if self._answered else max(self._timeout, STARTUP)):
                return False
            what = "the role that hands out weights does not answer for %.0f s: a new one takes its place"
            log.warning(what, waited)
            ray.kill(self.role, no_restart=False)
            self._answer, self._answered = None, False
            return True
        self._answered = self._answered or self._answer is not None
        self._answer, self._asked = self.role.publish.remote(self._version), time.monotonic()
        return False
