"""The buffer role: a replay memory, or a shard of one, in a process of its own.

Workers' rollouts reach it without passing through the learner. It samples all batches of an iteration at
once, ahead of time, and receives their new priorities afterwards (Horgan et al. 2018, "Distributed
prioritized experience replay", https://arxiv.org/abs/1803.00933). So priorities change once per iteration,
not with each update.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from rl.hparams.hparams import HParams
from rl.registry import import_user_modules
from rl.types import Nest, Tensor
from rl.workers.worker import unpacked

KEPT = 16  # least number of draws that are remembered until their new priorities come
KEPT_OF_LEARNER = 4  # the same for each learner: in use, ordered ahead (`buffers.AHEAD`), one more


class BufferAssignment(NamedTuple):
    """The parameters of a buffer, which it gets when it starts."""

    hparams: dict[str, Any]  # HParams.to_dict, of one shard
    user_modules: tuple[str, ...]
    content: Any  # rl.runners.blocks.BlockContent
    memory: Any  # rl.memory.spec.MemorySpec
    length: int  # T of the blocks that come
    updates: int  # U, batches of an iteration
    seed: int  # of its draws


class Buffer:
    """A shard; called through Ray, one call after another."""

    def __init__(self, assignment: BufferAssignment):
        self._assignment = assignment
        # Draws by number: the batches' indices, and the rows written when they were sampled.
        self._drawn: OrderedDict[int, tuple[Any, Any]] = OrderedDict()
        self._managers: dict[str, Any] = {}
        self._built = False

    def answer(self) -> int:
        """Returns the id of its process once it can be used."""
        self._build()
        return os.getpid()

    def add(self, block: list[Any]) -> None:
        """Takes in a rollout as a worker sent it."""
        self._build()
        self._add(unpacked(block))

    def sample(self, number: int, step: int) -> tuple[tuple[int, bool], list[np.ndarray]]:
        """Draws the U batches of an iteration. Returns (how many transitions may be sampled, whether they are
        enough) and the batches' leaves [U, N, ...]; none while there are fewer than `min_replay_size`.

        number: the draw's seed, and its id for `update_priorities`; step: environment steps so far.
        """
        self._build()
        outputs = [each.numpy() for each in self._sample([np.int64(number), np.int64(step)])]
        size, can_sample, written, *leaves = outputs
        if not can_sample:
            return (int(size), False), []
        self._drawn[number] = leaves[self._index_leaf], written
        kept = max(KEPT, KEPT_OF_LEARNER * self._assignment.hparams["num_learners"])
        while len(self._drawn) > kept:
            self._drawn.popitem(last=False)
        return (int(size), True), leaves

    def update_priorities(self, number: int, priorities: np.ndarray) -> None:
        """Sets the new priorities [U, N] of the batches of draw `number`, except of entries that were
        overwritten since."""
        drawn = self._drawn.pop(number, None)
        if drawn is not None and priorities.size:
            self._prioritize([*drawn, priorities])

    def save(self, address: str, step: int) -> None:
        """Writes all that it holds to a checkpoint of its own."""
        self._build()
        checkpoints = self._checkpoints(address)
        newest = checkpoints.latest_step()
        if newest is not None and newest >= step:  # the run went back to a checkpoint, or started over
            step = newest + 1
        checkpoints.save(self._memory.variables, step, {}, self._memory.appended())

    def restore(self, address: str) -> int | None:
        """Reads the newest checkpoint; its step, None where there is none."""
        self._build()
        checkpoints = self._checkpoints(address)
        if checkpoints.restore(self._memory.variables) is None:
            return None
        return checkpoints.latest_step()

    def leave(self) -> None:
        """Removes this machine's local copies of its checkpoints, before the process ends."""
        for each in self._managers.values():
            each.close()

    def _checkpoints(self, address: str) -> Any:
        """The manager of its checkpoints: the same object each time, since it knows which pieces are
        unchanged."""
        from rl.storage.storage import checkpoints_at

        if address not in self._managers:
            self._managers[address] = checkpoints_at(address, 1)
        return self._managers[address]

    def _build(self) -> None:
        """Memory and compiled functions; not in the constructor, whose errors Ray reports as a death."""
        if self._built:
            return
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        import tensorflow as tf

        from rl.envs.rewards import get_reward_augmentation
        from rl.memory.registry import get_memory
        from rl.memory.samples import traced_structure
        from rl.ops import loops, random
        from rl.ops.trajectories import augmented, closed
        from rl.parallel.devices import compiled
        from rl.runners.blocks import BlockLayout
        from rl.runners.seeds import buffer_seed

        with contextlib.suppress(RuntimeError):  # TensorFlow is in use here already: a test
            tf.config.threading.set_intra_op_parallelism_threads(1)
            tf.config.threading.set_inter_op_parallelism_threads(1)
        assignment = self._assignment
        import_user_modules(assignment.user_modules)
        hparams: Any = HParams.from_dict(assignment.hparams).freeze()
        memory = self._memory = get_memory(hparams.memory_name)(assignment.memory, hparams)
        layout = BlockLayout(assignment.content, assignment.memory.num_envs, assignment.length)
        name, root = hparams.reward_augmentation, random.key(assignment.seed)
        augment = None if name is None else get_reward_augmentation(name)

        def add(*arrays: Tensor) -> Tensor:
            trajectory = layout.trajectory(arrays)[0]
            memory.add(closed(trajectory._replace(reward=augmented(trajectory, augment, hparams.gamma))))
            return memory.size()

        def batches(number: Tensor, step: Tensor) -> list[Tensor]:
            def one(i: Tensor) -> Nest:
                return memory.sample(buffer_seed(root, number, i), step)

            spec = traced_structure(one, tf.constant(0))
            every = tf.map_fn(one, tf.range(assignment.updates), fn_output_signature=spec)
            self._index_leaf = _place_of_index(every)
            return [memory.size(), memory.can_sample(), memory.written(), *tf.nest.flatten(every)]

        def prioritize(index: Tensor, written: Tensor, priorities: Tensor) -> Tensor:
            def one(i: Tensor) -> dict[str, Tensor]:
                memory.update_priorities(_Indexed(tf.gather(index, i)), tf.gather(priorities, i), written)
                return {}

            loops.repeat(assignment.updates, one)
            return memory.size()

        jit = hparams.compile in ("auto", "xla")
        scalar = tf.TensorSpec([], tf.int64)
        self._add = compiled(add, layout.signature, jit)
        self._sample = compiled(batches, [scalar, scalar], jit)
        drawn = assignment.updates, hparams.batch_size
        signature = [tf.TensorSpec(drawn, tf.int32), scalar, tf.TensorSpec(drawn, tf.float32)]
        self._prioritize = compiled(prioritize, signature, jit)
        self._built = True


class _Indexed(NamedTuple):
    """The part of a batch that a memory reads to update its priorities."""

    index: Tensor


def _place_of_index(batches: Any) -> int:
    """Which of the flattened leaves is the batches' index."""
    import tensorflow as tf

    marks = tf.nest.map_structure(lambda _: False, batches)._replace(index=True)
    return int(tf.nest.flatten(marks).index(True))
