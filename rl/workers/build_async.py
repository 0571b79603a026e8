"""Runs with workers, put together: the first learner's part, and that of its peers."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

from rl.agents.agent import Agent
from rl.agents.algos.registry import get_algo
from rl.memory.registry import get_memory
from rl.memory.samples import sampled_structure
from rl.runners.base import Runner
from rl.runners.blocks import BlockContent
from rl.runners.build import make_memory, memory_class, memory_spec, reward_augmentation, start_mode
from rl.runners.learn_function import LearnFunction
from rl.runners.learner import Learner
from rl.types import Nest
from rl.workers.async_ray import AsyncRunner
from rl.workers.buffer import Shelf
from rl.workers.peers import Part
from rl.workers.plan import Workers, division, rollouts_sent_as_one, shard_of, together
from rl.workers.roles import Roles
from rl.workers.worker import worker_env


def build_async(hparams: Any, seed: int, workers: Workers) -> AsyncRunner:
    """The runner of a run with workers.

    Raises:
        UsageError: parts that do not fit together; Ray cannot be used.
    """
    parts = division(hparams, workers, together(get_algo(hparams.algo).experience, hparams))
    backend, views = _environment(hparams)
    learners, shards = hparams.num_learners, hparams.buffer_shards
    with contextlib.ExitStack() as stack:
        roles = None
        if learners > 1:  # before TensorFlow's first use
            roles = Roles(workers, learners, shards)
            stack.callback(roles.close)
        agent = _agent(parts.own, views, seed)
        part = Part(
            hparams=parts.own.to_dict(),
            user_modules=workers.user_modules,
            seed=seed,
            num_envs=parts.envs_of_a_learner,
            workers=workers.number,
            envs_of_a_worker=parts.envs_of_a_worker,
            sampled=shards > 0,
        )
        learning = _learning(agent, part)
        if roles is None:
            roles = Roles(workers, learners, shards)
            stack.callback(roles.close)
        roles.plan(parts, part, _shelf(hparams, agent, part) if shards else None)
        runner = AsyncRunner(learning.learner, seed, learning.function, workers, roles)
        runner.backend = backend
        stack.pop_all()
        return runner


def build_part(hparams: Any, part: Part) -> tuple[Runner, LearnFunction]:
    """What a peer of the first learner learns with."""
    learning = _learning(_agent(hparams, _environment(hparams)[1], part.seed), part)
    runner = Runner(learning.learner, part.seed)
    return runner, learning.function(runner)


class _Learning(NamedTuple):
    learner: Learner
    jit_compile: bool
    num_envs: int
    length: int
    sampled: Nest | None

    def function(self, runner: Runner) -> LearnFunction:
        """Compiles the learning of a runner."""
        return LearnFunction(runner, self.jit_compile, self.num_envs, self.length, self.sampled)


def _learning(agent: Agent, part: Part) -> _Learning:
    """The learner of one process: with the memory, or, where buffers have it, with what they send."""
    length = _length(agent)
    jit_compile = start_mode(agent, False) == "xla"
    if not part.sampled:
        memory, sampled = make_memory(agent, part.num_envs, length + 1, 1), None
    else:
        spec = memory_spec(agent, part.envs_of_a_worker, length + 1, 1)
        memory = get_memory("rollout")(spec, agent.hparams)
        shard = shard_of(agent.hparams, agent.hparams.batch_size)
        sampled = sampled_structure(memory_class(agent), spec, shard)
    late = not together(agent.experience, agent.hparams)
    learner = Learner(agent, memory, reward_augmentation(agent), part.workers, late)
    return _Learning(learner, jit_compile, part.num_envs, length, sampled)


def _shelf(hparams: Any, agent: Agent, part: Part) -> Shelf:
    length = _length(agent)
    return Shelf(
        hparams=shard_of(hparams, agent.hparams.batch_size).to_dict(),
        user_modules=part.user_modules,
        content=BlockContent.of(agent),
        memory=memory_spec(agent, part.envs_of_a_worker, length + 1, 1),
        length=length,
        updates=agent.updates_per_iteration(),
        seed=part.seed,
    )


def _length(agent: Agent) -> int:
    """T of what a worker sends; in a memory it has a row more (`trajectories.closed`)."""
    return agent.hparams.rollout_length * rollouts_sent_as_one(agent)


def _agent(hparams: Any, views: tuple[Any, Any], seed: int) -> Agent:
    agent: Agent = get_algo(hparams.algo)(hparams, *views, seed)
    return agent


def _environment(hparams: Any) -> tuple[str, tuple[Any, Any]]:
    """Backend of the environment as workers play it, and its observation and action space."""
    env = worker_env(hparams, 1)
    env.close()
    return env.backend, (env.observation_space, env.action_space)
