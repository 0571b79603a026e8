"""The asynchronous runner: workers act in processes of their own, on this machine or all over a cluster.

Each worker plays `num_envs` environments and sends its rollouts as they come; each makes one iteration of the
learner, which is this process. So an algorithm does not know of the workers: A2C becomes A3C with one
learner, PPO becomes APPO without its target network, DQN with per-worker exploration and a prioritized memory
becomes Ape-X. Rollouts are by weights a few updates old; those older than `max_staleness` are not used.

With `sync_workers`, and always for agents that compare parameters (ES, ARS), the workers share `num_envs`
among them, all play with the newest weights, and the learner waits for all (DPPO): the same seed gives the
same run.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import ray
import tensorflow as tf

from rl.errors import UsageError
from rl.ops import loops, random
from rl.runners.actor import Actor, flat_weights
from rl.runners.base import Runner
from rl.runners.blocks import BlockLayout, compiled
from rl.runners.learner import Learner
from rl.types import Tensor
from rl.workers.cluster import Cluster
from rl.workers.plan import Workers, rollouts_sent_as_one
from rl.workers.pool import WorkerPool
from rl.workers.weights import Version, Weights
from rl.workers.worker import Assignment, Worker


class AsyncRunner(Runner):
    """Learns from the rollouts of workers.

    Args:
        learner: agent and memory.
        seed: of everything random in the run.
        jit_compile: whether XLA compiles the learning.
        workers: how many, and where.

    Raises:
        UsageError: `num_envs` cannot be shared among the workers; Ray cannot be used.
    """

    def __init__(self, learner: Learner, seed: int, jit_compile: bool, workers: Workers):
        super().__init__(learner, seed)
        agent, hparams = learner.agent, learner.agent.hparams
        self.together = together(agent)
        if self.together and hparams.num_envs % workers.number:
            raise UsageError(
                f"{workers.number} workers cannot share num_envs={hparams.num_envs}: take a divisor of it"
            )
        self.workers = workers
        self.starting = f"starting {workers.number} workers ..."
        self._pack = loops.MetricPack()
        self._window = rollouts_sent_as_one(agent)
        self._layout = BlockLayout(agent, hparams.num_envs, self._window * hparams.rollout_length)
        self._learn = self._learn_function(jit_compile)
        agent.resample_noise(random.fold_in(self.root_seed, 0))
        # Here, where nothing is written yet: it may refuse.
        self._cluster = Cluster(workers.address, workers.number)
        self._weights: Any = None
        self._pool: WorkerPool | None = None
        self._version: Version | None = None
        self._staleness: list[int] = []
        self._dropped = 0
        self._waited, self._since = 0.0, time.perf_counter()

    def run(self, iterations: int) -> dict[str, float]:
        pool = self._pool or self._start()
        total = np.zeros(loops.MAX_METRICS, np.float32)
        played: dict[str, float] = {}
        made = int(self.iteration.numpy())
        end = made + iterations
        while made < end:
            begun = time.perf_counter()
            rollouts = pool.gather(made) if self.together else [pool.next()]
            self._waited += time.perf_counter() - begun
            for rollout in rollouts:
                for name, value in rollout.sums.items():
                    played[name] = played.get(name, 0.0) + value
            staleness = made - min(rollout.version for rollout in rollouts)
            limit = self.learner.agent.hparams.max_staleness
            if limit is not None and staleness > limit:
                self._dropped += 1
                continue
            self._staleness.append(staleness)
            blocks = [rollout.arrays for rollout in rollouts]
            worker = np.int32(0 if self.together else rollouts[0].worker)
            vector = self._learn([*self._layout.joined(blocks), worker]).numpy()
            total += vector[: loops.MAX_METRICS]
            made += 1
            self._publish(made, vector[loops.MAX_METRICS :])
        return {name: float(total[i]) for i, name in enumerate(self._pack.names)} | played

    def scalars(self) -> dict[str, float]:
        """Staleness in updates, the share of time that the learner waited, and what was lost so far."""
        now = time.perf_counter()
        found = {"perf/learner_wait_fraction": self._waited / max(now - self._since, 1e-9)}
        if self._staleness:
            found |= {
                "perf/staleness_mean": float(np.mean(self._staleness)),
                "perf/staleness_max": float(max(self._staleness)),
            }
        if self._pool is not None:
            found |= {
                "perf/workers_replaced": self._pool.counts.replaced,
                "perf/rollouts_lost": self._pool.counts.lost,
                "perf/rollouts_too_old": self._dropped,
            }
        self._waited, self._since, self._staleness = 0.0, now, []
        return found

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
        self._cluster.close()

    def _start(self) -> WorkerPool:
        """The role that hands out weights, and the workers."""
        self._weights = ray.remote(Weights).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
        self._publish(int(self.iteration.numpy()), flat_weights(self.learner.agent, training=False).numpy())
        self._convert()
        timeout = self.learner.agent.hparams.worker_timeout
        self._pool = WorkerPool(self._worker, self.workers.number, timeout, self._republish)
        return self._pool

    @property
    def _each(self) -> int:
        """Environments of a worker."""
        return self.learner.agent.hparams.num_envs // (self.workers.number if self.together else 1)

    def _convert(self) -> None:
        """The policy as workers get it, and what each of them explores with."""
        agent, count = self.learner.agent, self.workers.number
        agent.act_for(0, self._each, count * self._each)
        self._portable: Any = None
        if not agent.acts_with_noise:
            portable = Actor(agent, self._each, True, 0, agent.hparams.act_backend).portable()
            self._portable = None if portable is None else ray.put(portable)
        self._own_values = []
        for i in range(count):
            agent.act_for(i * self._each, self._each, count * self._each)
            self._own_values.append(flat_weights(agent).numpy()[len(flat_weights(agent, False)) :])
        agent.act_for(0, count * self._each, count * self._each)  # what is logged is of all

    def _worker(self, index: int, incarnation: int) -> Any:
        """The actor of a new worker."""
        agent, each = self.learner.agent, self._each
        entropy = [self.seed, index, int(self.iteration.numpy()), incarnation]
        assignment = Assignment(
            worker=index,
            hparams=agent.hparams.to_dict(),
            user_modules=self.workers.user_modules,
            first=index * each,
            size=each,
            environments=self.workers.number * each,
            window=self._window,
            fresh=agent.experience == "parameters",
            own_values=self._own_values[index],
            seed=self.seed,
            own_seed=int(np.random.SeedSequence(entropy).generate_state(1)[0]) % 2**31,
        )
        return ray.remote(Worker).options(num_cpus=1).remote(assignment, self._weights, self._portable)

    def _publish(self, number: int, flat: np.ndarray) -> None:
        self._version = Version(number, number * self.steps_per_iteration, [ray.put(flat)])
        self._weights.publish.remote(self._version)

    def _republish(self) -> None:
        """Again, for a role that was restarted and knows nothing."""
        if self._version is not None:
            self._weights.publish.remote(self._version)

    def _learn_function(self, jit_compile: bool) -> Any:
        """The compiled function: a block's arrays in; packed metrics and new weights out, as one vector."""
        agent = self.learner.agent

        def learn(*inputs: Tensor) -> Tensor:
            *arrays, worker = inputs
            metrics = self.learn(self._layout.trajectory(tuple(arrays))[0], {}, worker)
            return tf.concat([self._pack.pack(metrics), flat_weights(agent, training=False)], 0)

        signature = [*self._layout.signature, tf.TensorSpec([], tf.int32)]
        return compiled(learn, signature, jit_compile)


def together(agent: Any) -> bool:
    """Whether workers make each rollout together, in place of one each."""
    return agent.hparams.sync_workers or agent.experience == "parameters"
