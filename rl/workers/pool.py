"""The learner's side of the workers: receives their rollouts, and replaces workers that fail.

Each worker has at most `IN_FLIGHT` rollouts on order, so that it plays the next one while the learner is busy
with the last; no more than these can wait for the learner. A worker whose process ends, whose node is lost
or that sends nothing for `timeout` seconds is replaced, and its current rollouts are lost.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import ray

from rl.errors import EnvironmentFailed, Unavailable, UsageError
from rl.workers.worker import Rollout

IN_FLIGHT = 2
POLL = 0.5  # seconds between two looks at who is late
STARTUP = 600.0  # seconds that a new worker may take for its first rollout, imports and compilation included
log = logging.getLogger("rl.workers")


class Slot:
    """The place of one worker."""

    def __init__(self, index: int):
        self.index = index
        self.incarnation = 0  # how many workers had this place before
        self.handle: Any = None
        self.pending: deque[Any] = deque()  # object references, oldest first
        self.heard = 0.0  # time of its last delivery, or of its start
        self.delivered = False  # whether it ever delivered a rollout


class Counts(NamedTuple):
    """Counts of failures so far."""

    replaced: int
    lost: int  # rollouts on order when their worker was replaced


class WorkerPool:
    """Starts workers, orders rollouts and replaces workers.

    Args:
        make: (index, incarnation) to the handle of a new worker's actor.
        count: how many.
        timeout: seconds without a delivery after which a worker is taken to hang.
        wake: called while nothing arrives, at most every `POLL` seconds; returns whether the delay had
            another cause than the workers, whose timeouts then restart. An error that it raises ends the
            wait; rollouts that arrived before are kept for the next one.
        fetch: whether to return the arrays of rollouts, or references to them.
    """

    def __init__(
        self,
        make: Callable[[int, int], Any],
        count: int,
        timeout: float,
        wake: Callable[[], bool],
        fetch: bool = True,
    ):
        self._make, self._timeout, self._wake, self._fetch = make, timeout, wake, fetch
        self._slots = [Slot(i) for i in range(count)]
        self._replaced = self._lost = 0
        self._failures = 0  # one after another, with no delivery between them
        self._turn = 0
        self._gathered: dict[int, Rollout] = {}  # by worker, of the iteration under way
        self._arrived: dict[int, deque[Slot]] = {}  # by part: those with a rollout to be taken
        for slot in self._slots:
            self._start(slot)

    @property
    def counts(self) -> Counts:
        return Counts(self._replaced, self._lost)

    @property
    def playing(self) -> int:
        """Workers that have delivered since they were started."""
        return sum(slot.delivered for slot in self._slots)

    def next(self, part: int = 0, parts: int = 1) -> Rollout:
        """Waits for the next rollout of whichever worker has one, and returns it.

        part, parts: of the part-th among `parts` groups of workers.

        Raises:
            UsageError: workers fail one after another; Unavailable where their processes are lost,
                EnvironmentFailed where it is their environments.
        """
        # Take all rollouts of the last poll before polling again: a poll costs time in proportion to the
        # number of workers, and with a thousand it would take longer than learning.
        arrived = self._arrived.setdefault(part, deque())
        while True:
            while arrived:
                slot = arrived.popleft()
                rollout = self._take(slot)
                if rollout is not None:
                    slot.pending.append(self._order(slot))
                    self._turn = slot.index + 1  # the others come first next time
                    return rollout
            for slot in self._slots:
                while len(slot.pending) < IN_FLIGHT:
                    slot.pending.append(self._order(slot))
            arrived.extend(self._ready(self._slots[part::parts]))

    def gather(self, iteration: int) -> list[Rollout]:
        """Waits for a rollout of every worker with the same weights; returns them in the order of workers.

        Raises:
            UsageError: workers fail one after another; Unavailable where their processes are lost,
                EnvironmentFailed where it is their environments.
        """
        found = self._gathered  # more than none where the last call raised
        while len(found) < len(self._slots):
            missing = [slot for slot in self._slots if slot.index not in found]
            for slot in missing:
                if not slot.pending:
                    slot.pending.append(self._order(slot, iteration))
                    slot.heard = time.monotonic()
            for slot in self._ready(missing):
                rollout = self._take(slot)
                if rollout is not None:
                    found[slot.index] = rollout
        self._gathered = {}
        return [found[i] for i in range(len(self._slots))]

    def close(self) -> None:
        """Ends all workers."""
        for slot in self._slots:
            with contextlib.suppress(Exception):
                ray.kill(slot.handle)

    def _order(self, slot: Slot, iteration: int | None = None) -> Any:
        """Orders a rollout from a worker; returns a reference to it, or two: to its description and its
        arrays."""
        if self._fetch:
            return slot.handle.rollout.remote(iteration)
        return tuple(slot.handle.rollout_apart.options(num_returns=2).remote(iteration))

    def _ready(self, slots: list[Slot]) -> list[Slot]:
        """The slots whose oldest order is done (with a rollout or an error), in turn; replaces late
        workers."""
        slots = sorted(slots, key=lambda slot: (slot.index - self._turn) % len(self._slots))
        oldest = [_heard_by(slot.pending[0]) for slot in slots]
        # Ask for all: if Ray returns only one, it is not the first of the list. With a learner slower than
        # the workers it could always be the same one, and a dead worker would never be noticed.
        ready, _ = ray.wait(oldest, num_returns=len(oldest), timeout=0)
        if not ready:
            ready, _ = ray.wait(oldest, num_returns=1, timeout=POLL)
        if not ready and self._wake():
            for slot in self._slots:
                slot.heard = time.monotonic()
        for slot in slots:
            if self._is_late(slot) and not ray.wait([_heard_by(slot.pending[0])], timeout=0)[0]:
                self._replace(slot, f"sent nothing for {time.monotonic() - slot.heard:.0f} s")
        found = set(ready)
        return [slot for slot in slots if slot.pending and _heard_by(slot.pending[0]) in found]

    def _is_late(self, slot: Slot) -> bool:
        """Whether nothing was received from a worker for too long; the cause may also be a busy learner."""
        limit = self._timeout if slot.delivered else max(self._timeout, STARTUP)
        return time.monotonic() - slot.heard > limit

    def _take(self, slot: Slot) -> Rollout | None:
        """The oldest order of a worker; None where it failed, and the worker was replaced."""
        try:
            rollout: Rollout = ray.get(_heard_by(slot.pending[0]))
        except ray.exceptions.RayTaskError as error:  # what the environment or the policy raised
            if isinstance(error.cause, UsageError):
                raise error.cause from error
            cause = str(error.cause or error).strip().split("\n")[-1]
            self._replace(slot, f"failed ({type(error.cause).__name__}: {cause})", error.cause)
            return None
        except ray.exceptions.RayError as error:
            self._replace(slot, f"was lost ({type(error).__name__})")
            return None
        order = slot.pending.popleft()
        if not self._fetch:
            rollout = rollout._replace(arrays=order[1])
        slot.heard, slot.delivered, self._failures = time.monotonic(), True, 0
        return rollout

    def _replace(self, slot: Slot, why: str, cause: Exception | None = None) -> None:
        self._failures += 1
        if self._failures > 3 + 2 * len(self._slots):
            if isinstance(cause, EnvironmentFailed):
                raise cause
            # A lost process may be temporary; an error that was raised in it will be raised again.
            kind = Unavailable if cause is None else UsageError
            raise kind(f"workers fail one after another; the last one {why}")
        with contextlib.suppress(Exception):
            ray.kill(slot.handle)
        self._replaced += 1
        self._lost += len(slot.pending)
        log.warning("worker %d %s: a new one takes its place", slot.index, why)
        slot.incarnation += 1
        self._start(slot)

    def _start(self, slot: Slot) -> None:
        slot.handle = self._make(slot.index, slot.incarnation)
        slot.pending.clear()
        slot.heard, slot.delivered = time.monotonic(), False


def _heard_by(order: Any) -> Any:
    """The reference that arrives when an order is done."""
    return order[0] if isinstance(order, tuple) else order
