"""The learner's side of the buffers: sends rollouts, receives batches, replaces lost buffers."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import ray

from rl.errors import LearnerLost, UsageError
from rl.runners.collect import host_seed
from rl.storage.address import join
from rl.workers.buffer import Buffer, BufferAssignment
from rl.workers.cluster import QUIET, lost_on_the_way

AHEAD = 2  # iterations whose batches are ordered before they are needed
SAVING = 300.0  # seconds that a checkpoint of a buffer may take
LEAVING = 5.0  # seconds that a buffer may take to clean up
PATIENCE = 60.0  # seconds without an answer after which a buffer is skipped in favour of others
POLL = 1.0  # seconds between two looks at buffers that do not answer
ADDING = 4  # rollouts on their way into a shard, after which the learner waits
log = logging.getLogger("rl.workers")


class Shard:
    """The place of one buffer."""

    def __init__(self, index: int):
        self.index = index
        self.incarnation = 0
        self.handle: Any = None
        self.adding: deque[Any] = deque()
        self.absent: Any = None  # the reference that arrives once it answers again; None: it is not skipped
        self.silent_since = 0.0  # time.monotonic() since when it has been skipped
        self.answered = False  # whether it ever answered: starting, or waiting for room, takes longer
        self.size = 0  # transitions that could be sampled, by its last answer


class Sampled(NamedTuple):
    """The batches of one iteration, of one learner."""

    shard: Shard
    incarnation: int  # of the shard that sampled them
    number: int
    size: Any  # reference to how many transitions there are
    arrays: Any  # reference to their leaves


class Buffers:
    """Hands rollouts to the shards, batches to the learners, and priorities back.

    Args:
        assignment: of each buffer, without its seed. A buffer that does not answer for `worker_timeout`
            seconds is replaced, but not before `SAVING` seconds if it may be writing a checkpoint.
        learners: how many sets of batches an iteration needs.
        iteration: the first one; the sets' numbers go on from there.
        check: called while no buffer answers; may raise.
    """

    def __init__(
        self, assignment: BufferAssignment, learners: int, iteration: int, check: Callable[[], None]
    ):
        self._assignment, self._learners, self._check = assignment, learners, check
        self._timeout: float = assignment.hparams["worker_timeout"]
        self._shards = [Shard(i) for i in range(assignment.hparams["buffer_shards"])]
        self._ordered: deque[Sampled] = deque()
        self._saving: list[tuple[Shard, Any]] = []
        self._orders = iteration * learners
        self.replaced = self.lost = 0  # buffers; transitions that were in them
        self.rollouts_lost = 0  # before they came to a buffer
        for shard in self._shards:
            shard.handle = self._make(shard)

    def add(self, worker: int, arrays: Any) -> None:
        """Sends a rollout, by reference, to a shard: for one worker always the same one, as long as it
        answers."""
        shard = self._present(worker)
        shard.adding.append(shard.handle.add.remote(arrays))
        if len(shard.adding) > ADDING and self._arrives(shard, shard.adding[0]):
            try:
                ray.get(shard.adding.popleft())
            except ray.exceptions.RayError as error:
                if lost_on_the_way(error):
                    self.rollouts_lost += 1
                    log.warning(
                        "a rollout of worker %d was lost with the machine that it was made on", worker
                    )
                else:
                    self._replace_lost(shard, error)

    def next(self, step: int) -> list[Sampled] | None:
        """Waits for the batches of an iteration and returns a set for every learner; None if a buffer is not
        full enough, or was lost. step: environment steps so far."""
        self._look()
        while len(self._ordered) < AHEAD * self._learners:
            self._order(step)
        taken = [self._ordered.popleft() for _ in range(self._learners)]
        for _ in taken:
            self._order(step)
        ready = [self._is_there(each) for each in taken]
        return taken if all(ready) else None

    def update_priorities(self, sampled: Sampled, priorities: Any) -> None:
        """Sends new priorities [U, N] of sampled batches, or a reference to them, to their buffer."""
        if sampled.incarnation == sampled.shard.incarnation:
            sampled.shard.handle.update_priorities.remote(sampled.number, priorities)

    def arrays(self, sampled: Sampled) -> list[Any] | None:
        """Returns the leaves of the batches; None where they were lost on the way."""
        try:
            found: list[Any] = ray.get(sampled.arrays)
            return found
        except ray.exceptions.RayError as error:
            self._lost(sampled, error)
            return None

    @property
    def size(self) -> int:
        """Transitions that could be sampled, when the shards last said."""
        return sum(shard.size for shard in self._shards)

    def save(self, address: str, step: int) -> None:
        """Has each shard that answers write its own checkpoint, without waiting for it; a failure is one
        warning, later."""
        self._end_saving(PATIENCE)
        for shard in self._shards:
            if shard.absent is not None:
                log.warning("buffer %d does not answer: its last checkpoint is kept", shard.index)
                continue
            self._saving.append((shard, shard.handle.save.remote(join(address, str(shard.index)), step)))

    def restore(self, address: str) -> None:
        """Lets each shard read its newest checkpoint, if there is one.

        Raises:
            UsageError: there are checkpoints, but all are damaged.
            LearnerLost: a shard was lost meanwhile.
        """
        pairs = [(shard, join(address, str(shard.index))) for shard in self._shards]
        reading = [(shard, shard.handle.restore.remote(place)) for shard, place in pairs]
        for shard, reference in reading:
            try:
                ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, UsageError):
                    raise error.cause from error
                raise
            except ray.exceptions.RayError as error:  # an empty one in its place would soon be saved over it
                lost = f"buffer {shard.index} was lost as it read its checkpoint"
                raise LearnerLost(f"{lost} ({type(error).__name__})") from error

    def close(self) -> None:
        """Ends all buffers, after they have written what they were asked to."""
        self._end_saving(SAVING)
        with contextlib.suppress(Exception):
            leaving = [shard.handle.leave.remote() for shard in self._shards]
            ray.wait(leaving, num_returns=len(leaving), timeout=LEAVING)
        for shard in self._shards:
            with contextlib.suppress(Exception):
                ray.kill(shard.handle)

    def _end_saving(self, patience: float) -> None:
        """Waits for the checkpoints that were ordered, but not for buffers that do not answer."""
        saving, self._saving = self._saving, []
        for shard, reference in saving:
            if not ray.wait([reference], timeout=0 if shard.absent is not None else patience)[0]:
                self._pass_over(shard, reference)
                self._saving.append((shard, reference))
                continue
            try:
                ray.get(reference)
            except ray.exceptions.RayError as error:  # of a lost buffer too: its absence is noticed elsewhere
                cause = str(getattr(error, "cause", None) or error).strip().split("\n")[0]
                log.warning("buffer %d was not saved: %s", shard.index, cause)

    def _order(self, step: int) -> None:
        shard = self._present(self._orders)
        references = shard.handle.sample.options(num_returns=2).remote(self._orders, step)
        self._ordered.append(Sampled(shard, shard.incarnation, self._orders, *references))
        self._orders += 1

    def _is_there(self, sampled: Sampled) -> bool:
        """Whether there are batches."""
        if not self._arrives(sampled.shard, sampled.size):
            return False
        try:
            size, can_sample = ray.get(sampled.size)
        except ray.exceptions.RayError as error:
            self._lost(sampled, error)
            return False
        sampled.shard.size, sampled.shard.answered = size, True
        return bool(can_sample)

    def _present(self, first: int) -> Shard:
        """The shard with index `first`, or the next one that answers; that shard itself if none does."""
        count = len(self._shards)
        for i in range(count):
            shard = self._shards[(first + i) % count]
            if shard.absent is not None and ray.wait([shard.absent], timeout=0)[0]:
                shard.absent = None
            if shard.absent is None:
                return shard
        return self._shards[first % count]

    def _arrives(self, shard: Shard, reference: Any) -> bool:
        """Waits for a shard's answer. False if it was replaced, or is skipped because others answer: a
        cluster that lost a node may have no room for it."""
        incarnation = shard.incarnation
        while not ray.wait([reference], timeout=0 if shard.absent is not None else PATIENCE)[0]:
            self._pass_over(shard, reference)
            if any(each.absent is None for each in self._shards):
                return False
            ray.wait([each.absent for each in self._shards], timeout=POLL)
            self._check()
            self._look()
            if shard.incarnation != incarnation:
                return False
        return True

    def _pass_over(self, shard: Shard, reference: Any) -> None:
        """Skips the shard until that reference arrives."""
        if shard.absent is None:
            log.warning("buffer %d does not answer: it is passed over until it does", shard.index)
            shard.absent, shard.silent_since = reference, time.monotonic()

    def _look(self) -> None:
        """Uses buffers again that answer again, and replaces those that have been silent for too long."""
        for shard in self._shards:
            if shard.absent is None:
                continue
            if ray.wait([shard.absent], timeout=0)[0]:
                shard.absent = None
                continue
            silent, saves = (
                time.monotonic() - shard.silent_since,
                any(each is shard for each, _ in self._saving),
            )
            if shard.answered and silent > (max(self._timeout, SAVING) if saves else self._timeout):
                self._replace(shard, f"did not answer for {silent:.0f} s more")

    def _lost(self, sampled: Sampled, error: Exception) -> None:
        if sampled.incarnation == sampled.shard.incarnation:
            self._replace_lost(sampled.shard, error)

    def _replace_lost(self, shard: Shard, error: Exception) -> None:
        """Raises RayTaskError where its own code failed, and would again."""
        if isinstance(error, ray.exceptions.RayTaskError):
            raise error
        self._replace(shard, f"was lost ({type(error).__name__})")

    def _replace(self, shard: Shard, why: str) -> None:
        """A new, empty buffer."""
        with contextlib.suppress(Exception):
            ray.kill(shard.handle)
        self.replaced += 1
        self.lost += shard.size
        log.warning(
            "buffer %d %s, with %d transitions: a new one takes its place", shard.index, why, shard.size
        )
        shard.incarnation += 1
        shard.size, shard.answered = 0, False
        shard.adding.clear()
        shard.handle = self._make(shard)
        shard.absent = shard.handle.answer.remote()

    def _make(self, shard: Shard) -> Any:
        """The handle of a new buffer's actor."""
        seed = host_seed(self._assignment.seed, shard.index, shard.incarnation)
        return ray.remote(Buffer).options(num_cpus=1, **QUIET).remote(self._assignment._replace(seed=seed))
