"""Several learners: this process and peers of it, whose gradients are averaged in every update.

The layout of DD-PPO (Wijmans et al. 2020, https://arxiv.org/abs/1911.00357). Each learner has its own part of
the data and the same weights; sums over all of them are exchanged from inside the compiled function
(`rl.parallel.replicas`), through `rl.workers.reducer`.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import numpy as np
import ray

from rl.errors import LearnerLost
from rl.parallel import replicas
from rl.registry import import_user_modules
from rl.workers.cluster import lost_on_the_way
from rl.workers.learning import LearnerAssignment, Learning
from rl.workers.reducer import Door, Meeting, Reducer, enter
from rl.workers.worker import unpacked


class PeerLearner:
    """A learner in a process of its own; called through Ray by the first one."""

    def join(self, meeting: Meeting, rank: int, size: int) -> None:
        """Connects to the other learners, as number `rank` of `size`."""
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        replicas.join(replicas.Group(size, rank, exchange=enter(meeting, rank).total))

    def build(self, assignment: LearnerAssignment) -> None:
        """Makes agent and compiled function."""
        import_user_modules(assignment.user_modules)
        self._learning = Learning(assignment)

    def take(self, values: list[np.ndarray]) -> None:
        """Takes over the first learner's variables, in its order."""
        for variable, value in zip(self._learning.shared_variables(), values, strict=True):
            variable.assign(value)

    def learn(self, iteration: int, worker: int, references: list[Any]) -> Any:
        """Makes one iteration, in step with the others: from the blocks of a rollout, or from sampled batches
        (worker -1). Returns their priorities.

        If it fails, the process ends: the others wait for its gradients, and notice only a lost connection.
        """
        try:
            self._learning.iteration.number.assign(iteration)
            found = ray.get(references)
            if worker < 0:
                return self._learning.from_batches(found[0]).priorities
            return self._learning.from_rollouts([unpacked(each) for each in found], worker).priorities
        except BaseException:
            os._exit(1)


class Peers:
    """The peers of this process, which is the first learner. Without peers, its methods do nothing.

    Args:
        count: how many learners there are, this one included.
    """

    def __init__(self, count: int):
        actor: Any = ray.remote(PeerLearner).options(num_cpus=1)
        self._handles = [actor.remote() for _ in range(count - 1)]
        self._pending: list[Any] = []
        self._reducer: Reducer | None = None
        if not self._handles:
            return
        door = Door(ray.util.get_node_ip_address())
        joined = [each.join.remote(door.meeting, i + 1, count) for i, each in enumerate(self._handles)]
        try:
            self._reducer = door.admit(count - 1)
        except TimeoutError as error:
            raise LearnerLost("another learner did not come") from error
        replicas.join(replicas.Group(count, 0, exchange=self._reducer.total))
        _results(joined)

    def build(self, assignment: LearnerAssignment, learning: Learning) -> None:
        """Makes the peers' agents, and gives them the state of the first learner's."""
        built = [each.build.remote(assignment) for each in self._handles]
        values = ray.put([variable.numpy() for variable in learning.shared_variables()])
        _results(built + [each.take.remote(values) for each in self._handles])

    def learn(self, iteration: int, each: list[tuple[int, list[Any]]]) -> list[Any]:
        """Starts an iteration of all peers. each: for every peer, the worker that made its data, and
        references to the data. Returns references to the results of `PeerLearner.learn`.

        Raises:
            LearnerLost: one did not end its last iteration.
        """
        _results(self._pending)
        pairs = zip(self._handles, each, strict=True)
        self._pending = [handle.learn.remote(iteration, *what) for handle, what in pairs]
        return self._pending

    def close(self) -> None:
        """Ends the processes."""
        replicas.join(replicas.Group())
        if self._reducer is not None:
            self._reducer.close()
        for each in self._handles:
            with contextlib.suppress(Exception):
                ray.kill(each)


def _results(references: list[Any]) -> list[Any]:
    """What calls of peers returned. Raises LearnerLost where one is gone."""
    try:
        found: list[Any] = ray.get(references)
        return found
    except ray.exceptions.RayError as error:
        if isinstance(error, ray.exceptions.RayTaskError) and not lost_on_the_way(error):
            raise  # its code failed, and would again
        raise LearnerLost(f"a learner was lost ({type(error).__name__})") from error
