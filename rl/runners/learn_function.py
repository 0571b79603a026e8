"""The compiled function of a learner whose data comes from other processes: rollouts, or sampled batches."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from rl.memory.samples import Samples
from rl.ops import loops
from rl.parallel import replicas
from rl.parallel.devices import compiled, fuses
from rl.runners.actor import flat_weights
from rl.runners.base import Runner
from rl.runners.blocks import BlockContent, BlockLayout
from rl.types import Nest, Tensor


class Learned(NamedTuple):
    """What one iteration's learning came to."""

    metrics: np.ndarray  # float32 [MAX_METRICS], sums, means over all learners
    weights: np.ndarray  # float32 [n], the policy's
    priorities: np.ndarray  # float32 [U, N] of the sampled batches; [0] of a rollout


class LearnFunction:
    """Arrays in; metrics, new weights and priorities out.

    Args:
        runner: whose agent learns, and whose iteration and seeds count.
        jit_compile: whether XLA compiles it.
        num_envs: B of the rollouts, after joining.
        length: T of the rollouts.
        sampled: in place of rollouts, the structure of one batch (`samples.sampled_structure`).
    """

    def __init__(self, runner: Runner, jit_compile: bool, num_envs: int, length: int, sampled: Nest | None):
        agent = runner.learner.agent
        self._runner, self.pack = runner, loops.MetricPack()
        self.layout = BlockLayout(BlockContent.of(agent), num_envs, length)
        self._samples: Samples | None = None
        signature = [*self.layout.signature, tf.TensorSpec([], tf.int32)]
        if sampled is not None:
            updates = agent.updates_per_iteration()
            self._samples, self._structure = Samples(updates, sampled.mask.shape[0]), sampled
            signature = [
                tf.TensorSpec([updates, *each.shape], each.dtype) for each in tf.nest.flatten(sampled)
            ]
        self._call = compiled(self._learned, signature, jit_compile, fuses(agent, jit_compile))

    def from_rollouts(self, blocks: list[list[np.ndarray]], worker: int) -> Learned:
        """An iteration's learning from the blocks of one rollout; worker: who made it."""
        return self._split(self._call([*self.layout.joined(blocks), np.int32(worker)]))

    def from_batches(self, arrays: list[np.ndarray]) -> Learned:
        """An iteration's learning from the leaves of U sampled batches, each [U, N, ...]."""
        return self._split(self._call(arrays))

    def _learned(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        priorities = tf.zeros([0])
        if self._samples is None:
            *arrays, worker = inputs
            metrics = self._runner.learn(self.layout.trajectory(tuple(arrays))[0], {}, worker)
        else:
            self._samples.feed(tf.nest.pack_sequence_as(self._structure, inputs))
            metrics = self._runner.learn_sampled(self._samples)
            priorities = self._samples.priorities()
        packed = replicas.mean(self.pack.pack(metrics))
        return tf.concat([packed, flat_weights(self._runner.learner.agent, training=False)], 0), priorities

    def _split(self, outputs: tuple[Tensor, Tensor]) -> Learned:
        vector = outputs[0].numpy()
        return Learned(vector[: loops.MAX_METRICS], vector[loops.MAX_METRICS :], outputs[1].numpy())
