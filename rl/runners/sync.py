"""The host runner: environments outside TensorFlow, acting through `Actor`, learning compiled.

With `overlap`, the learner works on one rollout while the environments make the next, with the weights
of before ("Sebulba", Hessel et al. 2021). The lag is one iteration, none for the first rollout after a row of
metrics, where everything is brought to rest: results do not depend on which of the two is faster.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from rl.heartbeat import doing
from rl.ops import loops, random
from rl.parallel.devices import Devices, fuses
from rl.runners.actor import Actor, flat_weights
from rl.runners.base import GoOn, Runner, episode_sums, joined_sums, running_sums
from rl.runners.blocks import BlockContent, BlockLayout
from rl.runners.collect import Block, Collector
from rl.runners.learner import Learner
from rl.spaces import space_spec
from rl.types import Tensor, Trajectory


class SyncRunner(Runner):
    """Runs a HostEnv.

    Args:
        env: a HostEnv of `num_envs` environments (rl.envs.host).
        learner: agent and memory.
        seed: of everything random in the run.
        jit_compile: whether XLA compiles the learning.
        devices: those that learn, each from its part of the environments.
    """

    def __init__(self, env: Any, learner: Learner, seed: int, jit_compile: bool, devices: Devices):
        self.env = env
        hparams = learner.agent.hparams
        self.overlap = hparams.overlap
        part = [env.num_envs // devices.count]
        with devices.scope():
            super().__init__(learner, seed, devices)
            self._return = tf.Variable(tf.zeros(part), trainable=False)  # of the running episode
            self._episode_length = tf.Variable(tf.zeros(part), trainable=False)
            # At the last step; not saved, for a run that goes on begins new episodes.
            self._life_lost = tf.Variable(tf.zeros(part, tf.bool), trainable=False)
        self.pack = loops.MetricPack()
        self._learn = self._learn_function(jit_compile)
        learner.agent.resample_noise(random.fold_in(self.root_seed, 0))  # later ones follow each learning
        self.actor = Actor(learner.agent, env.num_envs, True, seed, hparams.act_backend)
        fresh = learner.agent.experience == "parameters"
        self.collector = Collector(env, self.actor, hparams.rollout_length, fresh, seed)
        self._thread = ThreadPoolExecutor(1, "learner") if self.overlap else None
        self._blocks = [self.collector.block() for _ in range(2 if self.overlap else 1)]
        self._pending: Future | None = None
        self._restored = False
        specs = tf.nest.flatten(space_spec(env.observation_space, (env.num_envs,)))
        self._reached = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in specs]

    @property
    def variables(self) -> dict[str, Any]:
        found = {f"host/observation/{i}": each for i, each in enumerate(self._reached)}
        found |= {"host/running_return": self._return, "host/running_length": self._episode_length}
        return super().variables | self.devices.named(found)

    def restored(self, address: str) -> None:
        self._restored = True
        self.actor.sync()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
        self.env.close()
        super().close()

    def advance(self, iterations: int, go_on: GoOn | None = None) -> int:
        if self.collector.observation is None:
            self._reset()
        iteration = int(self.iteration.numpy())
        made = 0
        while made < iterations:
            block = self._blocks[made % len(self._blocks)]
            self._collect(block, iteration + made)
            doing("the compiled learning")
            if self._thread is None:
                self._finish(self._learn(block.arrays()))
            else:
                if self._pending is not None:
                    self._finish(self._pending.result())
                self._pending = self._thread.submit(self._learn, block.arrays())
            made += 1
            if go_on is not None and not go_on(made):
                break
        if self._pending is not None:
            doing("the compiled learning")
            # Rows of metrics and checkpoints stand between calls: nothing may be under way there.
            self._finish(self._pending.result())
            self._pending = None
        for variable, value in zip(self._reached, tf.nest.flatten(self.collector.observation), strict=True):
            variable.assign(tf.cast(value, variable.dtype))
        return made

    def _reset(self) -> None:
        """Starts the environments: at the beginning, and after a restart, which cannot restore them.

        After a restart the running episodes are cut at the observations that they had reached.
        """
        seed = np.random.SeedSequence([self.seed, int(self.iteration.numpy())]).generate_state(1)[0]
        reached = None
        if self._restored:
            structure = space_spec(self.env.observation_space, ())
            reached = tf.nest.pack_sequence_as(structure, [each.numpy() for each in self._reached])
            self.learner.cut()
        self.collector.reset(int(seed) % 2**31, reached)

    def _finish(self, results: list[Tensor]) -> None:
        """Gives new weights to the actor, and adds to the sums of the window."""
        vectors = [each.numpy() for each in results]
        self.actor.sync(vectors[0][loops.MAX_METRICS :])
        self._totals[0] += joined_sums([each[: loops.MAX_METRICS] for each in vectors], self.pack.names)

    def _collect(self, block: Block, iteration: int) -> None:
        self.collector.collect(block, iteration, iteration * self.steps_per_iteration)

    def _learn_function(self, jit_compile: bool) -> Any:
        """The compiled function: a block's arrays in; packed metrics and new weights out, as one vector for
        each device."""
        agent, count = self.learner.agent, self.devices.count
        length = agent.hparams.rollout_length
        layout = BlockLayout(BlockContent.of(agent), self.env.num_envs // count, length)

        def learn(*arrays: Tensor) -> Tensor:
            trajectory, life_lost = layout.trajectory(arrays)
            metrics = self.learn(trajectory, self._episode_metrics(trajectory, life_lost))
            return tf.concat([self.pack.pack(metrics), flat_weights(agent)], 0)

        call = self.devices.compile(learn, layout.signature, jit_compile, fuses(agent, jit_compile))

        def learned(arrays: list[np.ndarray]) -> list[Tensor]:
            parts = layout.divided(arrays, count)
            return call([[tf.constant(each) for each in part] for part in parts])

        return learned

    def _episode_metrics(self, trajectory: Trajectory, life_lost: Tensor) -> dict[str, Tensor]:
        """Sums over the episodes that ended in a rollout. Learning takes the loss of a life for an end;
        an episode's return and length go on to the real one."""
        alive, ended = trajectory.mask, tf.logical_or(trajectory.terminated, trajectory.truncated)
        if self.env.life_lost is not None:
            before = tf.concat([self._life_lost.value()[None], life_lost[:-1]], 0)  # [T, B]
            alive = tf.maximum(alive, tf.cast(before, tf.float32))  # not a new episode's first step
            ended = tf.logical_and(ended, tf.logical_not(life_lost))
            self._life_lost.assign(life_lost[-1])
        start = self._return.value(), self._episode_length.value()
        if self.learner.agent.experience == "parameters":  # every rollout begins with fresh episodes
            start = tf.zeros_like(start[0]), tf.zeros_like(start[1])
        running = running_sums(trajectory.reward, alive, *start, trajectory.mask)
        self._return.assign(running[0][-1])
        self._episode_length.assign(running[1][-1])
        return episode_sums(*running, ended, trajectory.mask)
