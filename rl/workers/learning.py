"""The learning of one process of a run with workers: of the first learner, or of one of its peers.

Its data come from other processes, as arrays: rollouts of workers, or batches of buffers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from rl.agents.agent import Agent
from rl.agents.algos.registry import get_algo
from rl.envs.agents import OwnRewards
from rl.hparams.hparams import HParams
from rl.memory.registry import get_memory
from rl.memory.samples import Samples, sampled_structure
from rl.ops import loops
from rl.parallel.devices import compiled, fuses
from rl.runners.actor import flat_weights
from rl.runners.blocks import BlockContent, BlockLayout
from rl.runners.curious import curiosity_of
from rl.runners.iteration import Iteration
from rl.runners.parts import (
    make_memory,
    memory_class,
    memory_spec,
    of_rows,
    reward_augmentation,
    start_mode,
)
from rl.types import Tensor
from rl.workers.plan import rollouts_sent_as_one, shard_of, together
from rl.workers.worker import worker_env


class LearnerAssignment(NamedTuple):
    """The parameters of a learner, which it gets when it starts."""

    hparams: dict[str, Any]  # HParams.to_dict, of one learner's part
    user_modules: tuple[str, ...]
    seed: int
    num_envs: int  # environments of the rollouts that it learns from, of one row or one for each agent
    workers: int  # how many there are
    envs_of_a_worker: int


class Learned(NamedTuple):
    """The results of one iteration's learning."""

    metrics: np.ndarray  # float32 [MAX_METRICS], packed, over all learners
    weights: np.ndarray  # float32 [n], the policy's
    priorities: np.ndarray  # float32 [U, N] of the sampled batches; [0] of a rollout


class Learning:
    """An agent, and its `Iteration` compiled: arrays in; metrics, new weights and priorities out.

    Where buffers have the memory, its own is empty.

    Attributes:
        backend: of the environments that workers play.
        agents: rows of each environment.
        names: of the agents whose own returns workers tell; empty: there is one.

    Raises:
        UsageError: agent, memory and hparams do not fit together.
    """

    def __init__(self, assignment: LearnerAssignment):
        asked: Any = HParams.from_dict(assignment.hparams).freeze()
        env = worker_env(asked, 1)
        env.close()
        self.backend: str = env.backend
        self.agents: int = env.agents
        self.names = OwnRewards(env.observation_space, env.agents).names
        make_agent = get_algo(asked.algo)
        hparams: Any = of_rows(asked, env.agents, make_agent.experience)
        agent: Agent = make_agent(hparams, env.observation_space, env.action_space, assignment.seed)
        agent.rows_of_env = env.agents
        rows = assignment.num_envs * env.agents
        length = block_length(agent)
        jit_compile = start_mode(agent, False) == "xla"
        self.pack, self.layout = (
            loops.MetricPack(),
            BlockLayout(BlockContent.of(agent), rows, length),
        )
        self._samples: Samples | None = None
        if hparams.buffer_shards:
            spec = memory_spec(agent, assignment.envs_of_a_worker * env.agents, length + 1, 1)
            memory = get_memory("rollout")(spec, hparams)
            shard, updates = shard_of(hparams, hparams.batch_size), agent.updates_per_iteration()
            self._structure = sampled_structure(memory_class(agent), spec, shard)
            self._samples = Samples(updates, self._structure.mask.shape[0])
            leaves = tf.nest.flatten(self._structure)
            signature = [tf.TensorSpec([updates, *each.shape], each.dtype) for each in leaves]
        else:
            memory = make_memory(agent, rows, length + 1, 1)
            signature = [*self.layout.signature, tf.TensorSpec([], tf.int32)]
        late = not together(agent.experience, hparams)
        augment = reward_augmentation(agent)
        curiosity = curiosity_of(agent, assignment.seed, assignment.workers)
        self.iteration = Iteration(
            agent, memory, assignment.seed, augment, assignment.workers, late, curiosity=curiosity
        )
        self._call = compiled(self._learned, signature, jit_compile, fuses(agent, jit_compile))

    def from_rollouts(self, blocks: list[list[np.ndarray]], worker: int) -> Learned:
        """Makes an iteration of the blocks of one rollout; worker: who made it."""
        return self._split(self._call([*self.layout.joined(blocks), np.int32(worker)]))

    def from_batches(self, arrays: list[np.ndarray]) -> Learned:
        """Makes an iteration of the leaves of U sampled batches, each [U, N, ...]."""
        return self._split(self._call(arrays))

    def shared_variables(self) -> list[Any]:
        """Returns the variables that all learners have alike: everything but memories and running
        episodes."""
        named = self.iteration.variables
        alike = [named[name] for name in sorted(named) if not name.startswith("memory/")]
        return alike + self.iteration.agent.guard.variables

    def _learned(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        priorities = tf.zeros([0])
        if self._samples is None:
            *arrays, worker = inputs
            played = self.layout.trajectory(tuple(arrays))[0], None  # workers add up their episodes
            metrics = self.iteration.run(lambda seed, step: played, worker)
        else:
            self._samples.feed(tf.nest.pack_sequence_as(self._structure, inputs))
            metrics = self.iteration.run(self._samples)
            priorities = self._samples.priorities()
        packed = self.pack.over_learners(self.pack.pack(metrics))
        return tf.concat([packed, flat_weights(self.iteration.agent, training=False)], 0), priorities

    def _split(self, outputs: tuple[Tensor, Tensor]) -> Learned:
        vector = outputs[0].numpy()
        return Learned(vector[: loops.MAX_METRICS], vector[loops.MAX_METRICS :], outputs[1].numpy())


def block_length(agent: Agent) -> int:
    """Returns the length T of the blocks that a worker sends; in a memory they have a row more
    (`trajectories.closed`)."""
    return int(agent.hparams.rollout_length * rollouts_sent_as_one(agent))
