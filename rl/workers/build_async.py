"""The runner of a run with workers, put together."""

from __future__ import annotations

import contextlib
from typing import Any

from rl.agents.algos.registry import get_algo
from rl.runners.blocks import BlockContent
from rl.runners.parts import memory_spec
from rl.workers.async_ray import AsyncRunner
from rl.workers.buffer import BufferAssignment
from rl.workers.cluster import Cluster
from rl.workers.learning import LearnerAssignment, Learning, block_length
from rl.workers.peers import Peers
from rl.workers.plan import Workers, division, shard_of, together


def build_async(hparams: Any, seed: int, workers: Workers) -> AsyncRunner:
    """Returns the runner of a run with workers.

    Raises:
        UsageError: parts that do not fit together; Ray cannot be used.
    """
    parts = division(hparams, workers, together(get_algo(hparams.algo).experience, hparams))
    learners, shards = hparams.num_learners, hparams.buffer_shards
    assignment = LearnerAssignment(
        hparams=parts.own.to_dict(),
        user_modules=workers.user_modules,
        seed=seed,
        num_envs=parts.envs_of_a_learner,
        workers=workers.number,
        envs_of_a_worker=parts.envs_of_a_worker,
    )
    with contextlib.ExitStack() as stack:

        def connected() -> tuple[Cluster, Peers]:
            cluster = Cluster(workers.address, workers.number + learners - 1 + shards)
            stack.callback(cluster.close)
            peers = Peers(learners)
            stack.callback(peers.close)
            return cluster, peers

        before = connected() if learners > 1 else None  # before TensorFlow's first use
        learning = Learning(assignment)
        buffer = _buffer(hparams, learning, assignment) if shards else None
        runner = AsyncRunner(learning, assignment, buffer, workers, *(before or connected()))
        runner.backend = learning.backend
        stack.pop_all()
        return runner


def _buffer(hparams: Any, learning: Learning, learner: LearnerAssignment) -> BufferAssignment:
    """What each buffer is told, but for its seed."""
    agent = learning.iteration.agent
    length = block_length(agent)
    return BufferAssignment(
        hparams=shard_of(hparams, agent.hparams.batch_size).to_dict(),
        user_modules=learner.user_modules,
        content=BlockContent.of(agent),
        memory=memory_spec(agent, learner.envs_of_a_worker * learning.agents, length + 1, 1),
        length=length,
        updates=agent.updates_per_iteration(),
        seed=learner.seed,
    )
