"""The processes of a run beside its workers: how many there are, and what each is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import ray

from rl.workers.buffer import Buffer, Shelf
from rl.workers.buffers import Buffers
from rl.workers.cluster import Cluster
from rl.workers.peers import Part, Peers
from rl.workers.plan import Division, Workers

QUIET = {"enable_task_events": False}  # else the cluster's head keeps a record of every single rollout


class Roles:
    """Ray, the other learners and the buffers of a run.

    Args:
        workers: how many workers, and where.
        learners, shards: how many learners and buffers.

    Raises:
        UsageError: Ray cannot be used, or TensorFlow was used before learners could be connected.
    """

    def __init__(self, workers: Workers, learners: int, shards: int):
        self._shards = shards
        self._processes = workers.number + learners - 1 + shards
        self.cluster = Cluster(workers.address, self._processes)
        self.envs_of_a_worker = 0
        self._part: Part | None = None
        self._shelf: Shelf | None = None
        try:
            self.peers = Peers(learners)
        except BaseException:
            self.cluster.close()
            raise

    def plan(self, division: Division, part: Part, shelf: Shelf | None) -> None:
        """Says what the others will be told."""
        self.envs_of_a_worker = division.envs_of_a_worker
        self._part, self._shelf = part, shelf

    def start(self, runner: Any) -> None:
        """Makes the peers learners like this process's."""
        assert self._part is not None, "plan comes first"
        self.peers.build(self._part, runner)

    def buffers(self, iteration: int, learners: int) -> Buffers | None:
        """The buffers, empty; None where the learner has the memory."""
        shelf = self._shelf
        if shelf is None:
            return None

        def make(index: int, incarnation: int) -> Any:
            entropy = [shelf.seed, index, incarnation]
            seed = int(np.random.SeedSequence(entropy).generate_state(1)[0]) % 2**31
            return ray.remote(Buffer).options(num_cpus=1, **QUIET).remote(shelf._replace(seed=seed))

        timeout = shelf.hparams["worker_timeout"]
        return Buffers(make, self._shards, learners, iteration * learners, timeout, self.cluster.check)

    def tell_of_room(self) -> None:
        """Warns where the cluster has fewer cores than there are processes."""
        self.cluster.tell_of_room(self._processes)

    def close(self, keep_logs: bool = False) -> None:
        """Ends the peers, and leaves Ray as `Cluster.close` does."""
        self.peers.close()
        self.cluster.close(keep_logs)
