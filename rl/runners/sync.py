"""The host runner: environments outside TensorFlow, acting through `Actor`, learning compiled.

With `overlap`, the learner works on one rollout while the environments collect the next with the previous
weights ("Sebulba", Hessel et al. 2021). The lag is one iteration, and none for the first rollout after a row
of metrics, which waits for the learner: results do not depend on which of the two is faster.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf

from rl.data.recorder import Recorder
from rl.envs.measures import EpisodeMeasures
from rl.errors import EnvironmentFailed
from rl.heartbeat import doing
from rl.ops import loops
from rl.ops.episodes import Episodes, Running, Team, over_rollout
from rl.parallel.devices import Devices, fuses
from rl.runners.actor import Actor, flat_weights
from rl.runners.base import GoOn, Runner
from rl.runners.blocks import BlockContent, BlockLayout
from rl.runners.collect import Block, Collector, host_seed
from rl.runners.iteration import Iteration
from rl.runners.own_returns import OwnReturns
from rl.runners.seeds import first_seed
from rl.spaces import space_spec
from rl.types import Tensor, Trajectory


class SyncRunner(Runner):
    """Runs a HostEnv.

    Args:
        env: `num_envs` environments of the host, watched (rl.envs.faults).
        iteration: agent and memory.
        jit_compile: whether XLA compiles the learning.
        devices: those that learn, each from its part of the environments.
    """

    def __init__(self, env: Any, iteration: Iteration, jit_compile: bool, devices: Devices):
        self.env = env
        agent, seed = iteration.agent, iteration.seed
        hparams = agent.hparams
        self.overlap = hparams.overlap
        self._team = Team(env.agents, env.team_share)
        part = [env.num_envs // env.agents // devices.count]
        with devices.scope():
            super().__init__(iteration, devices)
            self.own_returns = OwnReturns.of(env, part[0], "host")
            self._running = Running(*(tf.Variable(tf.zeros(part), trainable=False) for _ in range(2)))
            # At the last step; not saved, for a run that goes on begins new episodes.
            self._life_lost = tf.Variable(tf.zeros(part, tf.bool), trainable=False)
        self.pack = loops.MetricPack()
        self._learn = self._learn_function(jit_compile)
        agent.resample_noise(first_seed(iteration.root_seed))  # later ones follow each learning
        self.actor = Actor(agent, env.num_envs, True, seed, hparams.act_backend)
        fresh = agent.experience == "parameters"
        self._measures = EpisodeMeasures(hparams.info_keys)
        env.tell_ends(self._measures.add)
        self.collector = Collector(env, self.actor, hparams.rollout_length, fresh, seed)
        self._thread = ThreadPoolExecutor(1, "learner") if self.overlap else None
        self._blocks = [self.collector.block() for _ in range(2 if self.overlap else 1)]
        self._pending: Future[list[Tensor]] | None = None
        self._restored = False
        specs = tf.nest.flatten(space_spec(env.observation_space, (env.num_envs,)))
        self._reached = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in specs]

    @property
    def variables(self) -> dict[str, Any]:
        found = {f"host/observation/{i}": each for i, each in enumerate(self._reached)}
        found |= {
            "host/running_return": self._running.episode_return,
            "host/running_length": self._running.length,
        }
        return super().variables | self.devices.named(found)

    def record_to(self, recorder: Recorder) -> None:
        """Does what `Runner.record_to` says."""
        self.recorder = recorder

    def restored(self, address: str) -> None:
        super().restored(address)
        self._restored = True
        self.actor.sync()

    def started_from_another(self) -> None:
        self.agent.resample_noise(first_seed(self.iteration.root_seed))  # not the other run's
        self.actor.sync()

    def scalars(self) -> dict[str, float]:
        """Returns what episodes came to by the environment's own measures, and how often the environments
        were remade after a failure, if they ever were."""
        rebuilt = {"perf/environments_rebuilt": self.env.rebuilt} if self.env.rebuilt else {}
        return self._measures.row() | rebuilt

    def begin_window(self) -> None:
        """Does what `Runner.begin_window` says."""
        super().begin_window()
        self._measures.sums = {}

    def unfinished(self) -> dict[str, Any]:
        """Does what `Runner.unfinished` says."""
        return super().unfinished() | {"measures": self._measures.sums}

    def resume_window(self, found: dict[str, Any]) -> None:
        """Does what `Runner.resume_window` says."""
        super().resume_window(found)
        self._measures.sums = dict(found.get("measures", {}))  # older runs say none

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
        self.env.close()
        super().close()

    def advance(self, iterations: int, go_on: GoOn | None = None) -> int:
        if self.failed is not None:
            raise self.failed
        if self.collector.observation is None:
            self._reset()
        iteration, made = self.made, 0
        while made < iterations:
            block = self._blocks[made % len(self._blocks)]
            try:
                self._collect(block, iteration + made)
            except EnvironmentFailed as error:
                self.failed = error
                break
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
            # Rows of metrics and checkpoints come between calls, when no learning may be in progress.
            self._finish(self._pending.result())
            self._pending = None
        for variable, value in zip(self._reached, tf.nest.flatten(self.collector.observation), strict=True):
            variable.assign(tf.cast(value, variable.dtype))
        return made

    def _reset(self) -> None:
        """Starts the environments: at the beginning, and after a restart, which cannot restore them.

        After a restart the running episodes are cut at the observations that they had reached.
        """
        reached = None
        if self._restored:
            structure = space_spec(self.env.observation_space, ())
            reached = tf.nest.pack_sequence_as(structure, [each.numpy() for each in self._reached])
            self.memory.cut()
            if self.iteration.reward_scale is not None:
                self.iteration.reward_scale.cut()
        self.collector.reset(host_seed(self.iteration.seed, self.made), reached)

    def _finish(self, results: list[Tensor]) -> None:
        """Gives new weights to the actor, and adds to the sums of the window."""
        vectors = [each.numpy() for each in results]
        self.actor.sync(vectors[0][loops.MAX_METRICS :])
        self._add([each[: loops.MAX_METRICS] for each in vectors])

    def _collect(self, block: Block, iteration: int) -> None:
        step = iteration * self.steps_per_iteration
        self.collector.collect(block, iteration, step)
        if self.recorder is not None:
            fresh, log_prob = self.agent.experience == "parameters", block.extra("log_prob")
            agents = self.collector.env.agents
            self.recorder.add(step, *block.rows(), fresh=fresh, log_prob=log_prob, agents=agents)

    def _learn_function(self, jit_compile: bool) -> Any:
        """The compiled function: a block's arrays in; packed metrics and new weights out, as one vector for
        each device."""
        agent, count = self.agent, self.devices.count
        length = agent.hparams.rollout_length
        layout = BlockLayout(BlockContent.of(agent), self.env.num_envs // count, length)

        def learn(*arrays: Tensor) -> Tensor:
            trajectory, life_lost = layout.trajectory(arrays)
            played = trajectory, self._episodes(trajectory, life_lost)
            metrics = self.iteration.run(lambda seed, step: played)
            return tf.concat([self.pack.pack(metrics), flat_weights(agent)], 0)

        call = self.devices.compile(learn, layout.signature, jit_compile, fuses(agent, jit_compile))

        def learned(arrays: list[np.ndarray]) -> list[Tensor]:
            parts = layout.divided(arrays, count)
            vectors: list[Tensor] = call([[tf.constant(each) for each in part] for part in parts])
            return vectors

        return learned

    def _episodes(self, trajectory: Trajectory, life_lost: Tensor) -> Episodes:
        """The episodes of a rollout. For learning an episode ends with a life (`life_lost`); its logged
        return and length continue to the end of the game."""
        team, mask = self._team, trajectory.mask
        alive = counted = team.any(mask)
        ended = team.ended(trajectory.terminated, trajectory.truncated, mask)
        if self.env.life_lost is not None:
            before = tf.concat([self._life_lost.value()[None], life_lost[:-1]], 0)  # [T, B]
            alive = tf.maximum(alive, tf.cast(before, tf.float32))  # not a new episode's first step
            ended = tf.logical_and(ended, tf.logical_not(life_lost))
            self._life_lost.assign(life_lost[-1])
        start = Running(*(each.value() for each in self._running))
        if self.agent.experience == "parameters":  # every rollout begins with fresh episodes
            start = Running(*map(tf.zeros_like, start))
        running = over_rollout(start, alive, team.reward(trajectory.reward), counted)
        for variable, steps in zip(self._running, running, strict=True):
            variable.assign(steps[-1])
        if self.own_returns is not None:
            self.own_returns.add(trajectory, alive, ended)
        return Episodes(running, ended)
