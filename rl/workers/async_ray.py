"""The asynchronous runner: workers act in processes of their own, on this machine or on a cluster.

Each worker plays `num_envs` environments and sends its rollouts when they are complete. The learner is this
process, and makes one iteration of each rollout. So algorithms need no code for workers: A2C becomes A3C with
one learner, PPO becomes APPO without its target network, DQN with per-worker exploration and a prioritized
memory becomes Ape-X. Rollouts come from weights that are a few updates old; those older than `max_staleness`
are dropped.

With `sync_workers`, and always for agents that compare parameters (ES, ARS), the workers divide `num_envs`
among them, all play with the newest weights, and the learner waits for all (DPPO): the same seed gives the
same run.

With `buffer_shards` the replay memory is in processes of its own (Ape-X's layout), and with `num_learners`
this process is the first of several whose gradients are averaged (DD-PPO).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import ray
import tensorflow as tf

from rl.envs.agents import SUM
from rl.errors import EnvironmentFailed, LearnerLost, Stopped
from rl.heartbeat import doing
from rl.parallel import replicas
from rl.runners.actor import Actor, flat_weights
from rl.runners.base import GoOn, Runner
from rl.runners.collect import host_seed, joined_sums
from rl.runners.seeds import first_seed
from rl.storage.address import join
from rl.workers.buffer import BufferAssignment
from rl.workers.buffers import Buffers
from rl.workers.cluster import QUIET, Cluster
from rl.workers.learning import Learned, LearnerAssignment, Learning
from rl.workers.peers import Peers
from rl.workers.plan import Workers, rollouts_sent_as_one, together
from rl.workers.pool import WorkerPool
from rl.workers.weights import Publisher, Weights
from rl.workers.worker import Assignment, Rollout, Sent, Worker, unpacked

log = logging.getLogger("rl.workers")


class AsyncRunner(Runner):
    """Learns from the rollouts of workers.

    Args:
        learning: of this process.
        assignment: of this learner, and of its peers.
        buffer: the assignment of buffers; None if the learner has the memory.
        workers: how many, and where.
        cluster, peers: those that `build_async` has connected to.
    """

    def __init__(
        self,
        learning: Learning,
        assignment: LearnerAssignment,
        buffer: BufferAssignment | None,
        workers: Workers,
        cluster: Cluster,
        peers: Peers,
    ):
        super().__init__(learning.iteration)
        agent = self.agent
        self.together = together(agent.experience, agent.hparams)
        self.workers, self._cluster, self._peers = workers, cluster, peers
        self._assignment, self._buffer_assignment = assignment, buffer
        self._rows_of_a_worker = assignment.envs_of_a_worker * learning.agents
        self.starting = f"starting {workers.number} workers ..."
        self._learning, self.pack = learning, learning.pack
        self._played: dict[str, float] = {}  # sums of the window's episodes, which the workers made
        agent.resample_noise(first_seed(self.iteration.root_seed))
        self._publisher: Publisher | None = None
        self._pool: WorkerPool | None = None
        self._buffers: Buffers | None = None
        self._taken: list[Rollout] = []  # rollouts of the current iteration, if its wait was interrupted
        self._is_over: Callable[[], bool] = bool
        self._restored: str | None = None
        self._staleness: list[int] = []
        self._sent: list[Sent] = []
        self._dropped = self._rebuilt = 0
        self._waited = {"rollouts": 0.0, "buffers": 0.0}  # seconds
        self._since = time.perf_counter()

    def advance(self, iterations: int, go_on: GoOn | None = None) -> int:
        if self.failed is not None:
            raise self.failed
        pool = self._pool or self._start()
        start = made = self.made
        self._is_over = lambda: go_on is not None and not go_on(made - start)
        while made < start + iterations:
            begun = time.perf_counter()
            doing("rollouts of the workers")
            self._cluster.check()
            try:
                rollouts = self._rollouts(pool, made)
            except EnvironmentFailed as error:
                self.failed = error
                break
            except Stopped:
                break
            finally:
                self._waited["rollouts"] += time.perf_counter() - begun
            for rollout in rollouts:
                self._played = joined_sums(self._played, rollout.sums)
                self._sent.append(rollout.sent)
                self._tell(rollout)
            staleness = made - min(rollout.version for rollout in rollouts)
            limit = self.agent.hparams.max_staleness
            if limit is not None and staleness > limit:
                self._dropped += 1
            else:
                self._staleness.append(staleness)
                learned = self._learn(made, rollouts)
                made += 1
                if learned is not None:
                    self._add([learned.metrics])
                self._publish(made, None if learned is None else learned.weights)
            if self._is_over():
                break
        return made - start

    def sums(self) -> dict[str, float]:
        return super().sums() | self._played

    def begin_window(self) -> None:
        super().begin_window()
        self._played = {}

    def unfinished(self) -> dict[str, Any]:
        played = {
            name: x for name, x in self._played.items() if not name.startswith(SUM) or not math.isnan(x)
        }
        return super().unfinished() | {"played": played}

    def resume_window(self, found: dict[str, Any]) -> None:
        super().resume_window(found)
        self._played = dict(found["played"])
        if "episodes" in self._played:  # an earlier version told of no agent
            self._played = {f"{SUM}{name}": math.nan for name in self._learning.names} | self._played

    def scalars(self) -> dict[str, float]:
        """Returns metrics (`perf/...`) by name: since the last call, staleness in updates, the shares of time
        that the learner waited, and megabytes received per second; counts of losses so far."""
        now = time.perf_counter()
        seconds = max(now - self._since, 1e-9)
        found = {"perf/learner_wait_fraction": self._waited["rollouts"] / seconds}
        if self._staleness:
            found |= {
                "perf/staleness_mean": float(np.mean(self._staleness)),
                "perf/staleness_max": float(max(self._staleness)),
            }
        lost = 0 if self._buffers is None else self._buffers.rollouts_lost
        if self._pool is not None:
            found |= {
                "perf/workers_playing": self._pool.playing,
                "perf/workers_replaced": self._pool.counts.replaced,
                "perf/rollouts_lost": self._pool.counts.lost + lost,
                "perf/rollouts_too_old": self._dropped,
            }
        if self._rebuilt:
            found["perf/environments_rebuilt"] = self._rebuilt
        if self._buffers is not None:
            found |= {
                "perf/buffer_wait_fraction": self._waited["buffers"] / seconds,
                "perf/buffer_transitions": self._buffers.size,
                "perf/buffers_replaced": self._buffers.replaced,
                "perf/transitions_lost": self._buffers.lost,
            }
        if self._sent:
            raw, sent, spent = (float(np.sum(each)) for each in zip(*self._sent, strict=True))
            found["perf/megabytes_per_second"] = sent / seconds / 1e6
            if self.agent.hparams.compress_rollouts:
                found |= {
                    "perf/compression_ratio": raw / max(sent, 1.0),
                    "perf/compression_seconds": spent / len(self._sent),
                }
        self._waited, self._since = dict.fromkeys(self._waited, 0.0), now
        self._staleness, self._sent = [], []
        return found

    def save(self, address: str) -> None:
        """Has the buffers write checkpoints of their own below that address, where `save_buffers` asks for
        it."""
        if self._buffers is not None and self.agent.hparams.save_buffers:
            self._buffers.save(join(address, "buffers"), self.step)

    def restored(self, address: str) -> None:
        self._restored = join(address, "buffers")

    def started_from_another(self) -> None:
        self.agent.resample_noise(first_seed(self.iteration.root_seed))

    def close(self) -> None:
        for each in (self._pool, self._buffers):
            if each is not None:
                each.close()
        lost = self._pool is not None and self._pool.counts.replaced > 0
        self._peers.close()
        self._cluster.close(keep_logs=lost or (self._buffers is not None and self._buffers.replaced > 0))

    def _rollouts(self, pool: WorkerPool, made: int) -> list[Rollout]:
        """The rollouts of an iteration: one of every worker, or one for every learner.

        Raises:
            EnvironmentFailed: environments fail.
            Stopped: the wait was interrupted; the rollouts so far are kept for the next call.
        """
        if self.together:
            return pool.gather(made)
        learners, taken = replicas.count(), self._taken
        while len(taken) < learners:
            taken.append(pool.next(len(taken), learners))
        self._taken = []
        return taken

    def _tell(self, rollout: Rollout) -> None:
        """Logs which environments a worker remade after failures."""
        for line in rollout.told:
            self._rebuilt += 1
            log.warning("worker %d: %s", rollout.worker, line)

    def _learn(self, made: int, rollouts: list[Rollout]) -> Learned | None:
        """The iteration's learning, by all learners; None if there were no data to learn from."""
        doing("the compiled learning")
        try:
            if self._buffers is not None:
                return self._learn_from_batches(made, self._buffers, rollouts)
            return self._learn_from_rollouts(made, rollouts)
        except tf.errors.OpError as error:
            if replicas.count() == 1:
                raise
            raise LearnerLost(f"a learner was lost ({type(error).__name__})") from error
        except ray.exceptions.ObjectLostError as error:  # of several: the others have begun this iteration
            raise LearnerLost("a rollout was lost with the machine that it was made on") from error

    def _learn_from_rollouts(self, made: int, rollouts: list[Rollout]) -> Learned:
        size = len(rollouts) // replicas.count()  # of a learner's part
        parts = [rollouts[i : i + size] for i in range(0, len(rollouts), size)]
        makers = [0 if self.together else part[0].worker for part in parts]
        blocks = [[rollout.arrays for rollout in part] for part in parts]
        self._peers.learn(made, list(zip(makers[1:], blocks[1:], strict=True)))
        own = blocks[0] if replicas.count() == 1 else ray.get(blocks[0])
        return self._learning.from_rollouts([unpacked(each) for each in own], makers[0])

    def _learn_from_batches(self, made: int, buffers: Buffers, rollouts: list[Rollout]) -> Learned | None:
        for rollout in rollouts:
            doing("a buffer that takes a rollout in")
            buffers.add(rollout.worker, rollout.arrays)
        doing("batches of the buffers")
        begun = time.perf_counter()
        sampled = buffers.next(made * self.steps_per_iteration)
        arrays = None if sampled is None else buffers.arrays(sampled[0])
        self._waited["buffers"] += time.perf_counter() - begun
        if sampled is None or arrays is None:
            self.iteration.number.assign(made + 1)
            return None
        doing("the compiled learning")
        others = sampled[1:]
        priorities = self._peers.learn(made, [(-1, [each.arrays]) for each in others])
        learned = self._learning.from_batches(arrays)
        for each, new in zip(sampled, [learned.priorities, *priorities], strict=True):
            buffers.update_priorities(each, new)
        return learned

    def _start(self) -> WorkerPool:
        """The other learners, the role that hands out weights, the buffers and the workers."""
        self._peers.build(self._assignment, self._learning)
        # Beside the learner, not on a node that may be lost while the learner goes on.
        lasting = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, **QUIET}
        role = ray.remote(Weights).options(**lasting, scheduling_strategy=self._cluster.here())
        timeout, count = self.agent.hparams.worker_timeout, self.workers.number
        # Half of the timeout: a failure must be found before the workers that wait for this role count as
        # late.
        self._publisher = Publisher(role.remote(), timeout / 2)
        made = self.made
        self._publish(made, flat_weights(self.agent, training=False).numpy())
        self._convert()
        if self._buffer_assignment is not None:
            self._buffers = Buffers(self._buffer_assignment, replicas.count(), made, self._cluster.check)
            if self._restored is not None:
                self._buffers.restore(self._restored)
        self._cluster.tell_of_room()
        fetch = self._buffers is None and replicas.count() == 1
        self._pool = WorkerPool(self._worker, count, timeout, self._tend, fetch)
        return self._pool

    def _convert(self) -> None:
        """Converts the policy for the workers, and the exploration parameters of each."""
        agent, count, each = self.agent, self.workers.number, self._rows_of_a_worker
        agent.act_for(0, each, count * each)
        self._portable: Any = None
        if not agent.acts_with_noise:
            portable = Actor(agent, each, True, 0, agent.hparams.act_backend).portable()
            self._portable = None if portable is None else ray.put(portable)
        self._own_values = []
        for i in range(count):
            agent.act_for(i * each, each, count * each)
            self._own_values.append(flat_weights(agent).numpy()[len(flat_weights(agent, False)) :])
        agent.act_for(0, count * each, count * each)  # what is logged is of all

    def _worker(self, index: int, incarnation: int) -> Any:
        """The actor of a new worker."""
        agent, each, seed = self.agent, self._rows_of_a_worker, self.iteration.seed
        assignment = Assignment(
            worker=index,
            hparams=agent.hparams.to_dict(),
            user_modules=self.workers.user_modules,
            first=index * each,
            size=each,
            rows=self.workers.number * each,
            agents=self._learning.agents,
            window=rollouts_sent_as_one(agent),
            fresh=agent.experience == "parameters",
            own_values=self._own_values[index],
            seed=seed,
            own_seed=host_seed(seed, index, self.made, incarnation),
        )
        actor = ray.remote(Worker).options(num_cpus=1, **QUIET)
        assert self._publisher is not None, "_start makes it"
        return actor.remote(assignment, self._publisher.role, self._portable)

    def _tend(self) -> bool:
        """Checks, while no rollout arrives, the roles that workers depend on; returns whether workers had to
        wait for one. Raises Stopped, with no learning in progress, where the run is to be interrupted."""
        if self._is_over():
            raise Stopped
        assert self._publisher is not None, "_start makes it"
        self._cluster.check()
        return self._publisher.tend()

    def _publish(self, number: int, flat: np.ndarray | None) -> None:
        """A new version; `flat` None: of the same weights."""
        assert self._publisher is not None, "_start makes it"
        self._publisher.publish(number, number * self.steps_per_iteration, flat)
