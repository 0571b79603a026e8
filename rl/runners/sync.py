"""The host runner: environments outside TensorFlow, acting through `Actor`, learning compiled.

With `overlap`, the learner works on one rollout while the environments make the next, with the weights
of before ("Sebulba", Hessel et al. 2021). The lag is exactly one iteration, so results do not depend on
which of the two is faster.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.ops import loops, random
from rl.runners.actor import Actor, flat_weights
from rl.runners.base import Runner, episode_sums, space_spec
from rl.runners.learner import Learner
from rl.types import Nest, Tensor, Trajectory


class SyncRunner(Runner):
    """Runs a HostEnv.

    Args:
        env: a HostEnv of `num_envs` environments (rl.envs.host).
        learner: agent and memory.
        seed: of everything random in the run.
        jit_compile: whether XLA compiles the learning.
    """

    def __init__(self, env: Any, learner: Learner, seed: int, jit_compile: bool):
        super().__init__(env, learner, seed)
        hparams = learner.agent.hparams
        self.length = hparams.rollout_length
        self.overlap = hparams.overlap
        self._pack = loops.MetricPack()
        self._learn = self._learn_function(jit_compile)
        learner.agent.resample_noise(random.fold_in(self.root_seed, 0))  # later ones follow each learning
        self.actor = Actor(learner.agent, env.num_envs, True, seed, hparams.act_backend)
        self._thread = ThreadPoolExecutor(1, "learner") if self.overlap else None
        self._blocks = [_Block(self) for _ in range(2 if self.overlap else 1)]
        self._pending: Future | None = None
        self._observation: Nest = None
        self._fresh: Nest | None = None
        self._restored = False
        specs = tf.nest.flatten(space_spec(env.observation_space, (env.num_envs,)))
        self._reached = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in specs]

    @property
    def variables(self) -> dict[str, Any]:
        reached = {f"host/observation/{i}": each for i, each in enumerate(self._reached)}
        return super().variables | reached

    def restored(self) -> None:
        self._restored = True
        self.actor.sync()

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown()
        self.env.close()

    def run(self, iterations: int) -> dict[str, float]:
        if self._observation is None:
            self._reset()
        total = np.zeros(loops.MAX_METRICS, np.float32)
        iteration = int(self.iteration.numpy())
        for i in range(iterations):
            block = self._blocks[i % len(self._blocks)]
            self._collect(block, iteration + i)
            if self._thread is None:
                total += self._finish(self._learn(*block.arrays()))
                continue
            if self._pending is not None:
                total += self._finish(self._pending.result())
            self._pending = self._thread.submit(self._learn, *block.arrays())
        if self._pending is not None:
            # Rows of metrics and checkpoints stand between windows: nothing may be under way there.
            total += self._finish(self._pending.result())
            self._pending = None
        for variable, value in zip(self._reached, tf.nest.flatten(self._observation), strict=True):
            variable.assign(tf.cast(value, variable.dtype))
        return {name: float(total[i]) for i, name in enumerate(self._pack.names)}

    def _reset(self) -> None:
        """Starts the environments: at the beginning, and after a restart, which cannot restore them.

        After a restart the running episodes are cut: the observations that they had reached stand as those of
        an autoreset step, so that the memory's newest transitions keep their true successors.
        """
        seed = np.random.SeedSequence([self.seed, int(self.iteration.numpy())]).generate_state(1)[0]
        self._observation = self.env.reset(int(seed) % 2**31)
        self._ended = np.zeros(self.env.num_envs, bool)
        if self._restored:
            self._fresh = self._observation
            structure = space_spec(self.env.observation_space, ())
            self._observation = tf.nest.pack_sequence_as(structure, [each.numpy() for each in self._reached])
            self._ended = np.ones(self.env.num_envs, bool)
            if self.learner.memory is not None:
                self.learner.memory.cut()
        self._return = np.zeros(self.env.num_envs, np.float32)
        self._episode_length = np.zeros(self.env.num_envs, np.float32)

    def _finish(self, result: tuple[Tensor, Tensor]) -> np.ndarray:
        metrics, weights = result
        self.actor.sync(weights.numpy())
        return metrics.numpy()

    def _collect(self, block: _Block, iteration: int) -> None:
        """One rollout into `block`."""
        actor, num_envs = self.actor, self.env.num_envs
        observation, ended = self._observation, self._ended
        step = iteration * self.steps_per_iteration
        actor.begin(iteration, self.length)
        for t in range(self.length):
            action, extras = actor(observation, t, step + t * num_envs)
            block.write(t, observation, action, ended, extras)
            observation, reward, terminated, truncated = self._step(action)
            np.multiply(self._return, ~ended, out=self._return)
            self._return += reward
            self._episode_length += 1.0
            np.multiply(self._episode_length, ~ended, out=self._episode_length)
            ended = terminated | truncated
            block.write_result(t, reward, terminated, truncated, self._return, self._episode_length)
        block.write_last(observation)
        self._observation, self._ended = observation, ended

    def _step(self, action: Nest) -> tuple[Nest, np.ndarray, np.ndarray, np.ndarray]:
        if self._fresh is None:
            return self.env.step(action)
        fresh, self._fresh = self._fresh, None
        never = np.zeros(self.env.num_envs, bool)
        return fresh, np.zeros(self.env.num_envs, np.float32), never, never

    def _learn_function(self, jit_compile: bool) -> Any:
        """The compiled function: a block's arrays in; packed metrics and the new flat weights out."""

        def learn(
            observation: list, action: list, reward: Any, flags: Any, running: Any, extras: list
        ) -> Any:
            agent, num_envs = self.learner.agent, self.env.num_envs
            seed = random.fold_in(self.root_seed, self.iteration + 1)
            noise_seed, learn_seed = random.split(seed, 2)
            terminated, truncated, mask = flags[0] > 0.0, flags[1] > 0.0, flags[2]
            trajectory = Trajectory(
                tf.nest.pack_sequence_as(space_spec(self.env.observation_space, ()), observation),
                tf.nest.pack_sequence_as(space_spec(self.env.action_space, ()), action),
                reward,
                terminated,
                truncated,
                mask,
                dict(zip(agent.trajectory_extras, extras, strict=True)),
            )
            ended = tf.logical_or(terminated, truncated)
            metrics = episode_sums(running[0], running[1], ended, mask)
            metrics |= self.learner.learn(trajectory, learn_seed, self.iteration * self.length * num_envs)
            agent.resample_noise(noise_seed)
            self.iteration.assign_add(1)
            return self._pack.pack(metrics), flat_weights(agent)

        lead = (self.length, self.env.num_envs)
        number = tf.TensorSpec(lead, tf.float32)
        signature = [
            tf.nest.flatten(space_spec(self.env.observation_space, (lead[0] + 1, lead[1]))),
            tf.nest.flatten(space_spec(self.env.action_space, lead)),
            number,
            tf.TensorSpec((3, *lead), tf.float32),
            tf.TensorSpec((2, *lead), tf.float32),
            [number for _ in self.learner.agent.trajectory_extras],
        ]
        function = tf.function(learn, jit_compile=jit_compile, input_signature=signature, autograph=False)

        def call(*arguments: Any) -> Any:
            return function(*tf.nest.map_structure(tf.constant, list(arguments)))

        return call


class _Block:
    """The arrays of one rollout on the host, written row by row."""

    def __init__(self, runner: SyncRunner):
        env, agent = runner.env, runner.learner.agent
        lead = (runner.length, env.num_envs)

        def empty(spec: tf.TensorSpec) -> np.ndarray:
            return np.zeros(tuple(spec.shape), spec.dtype.as_numpy_dtype)

        observation = space_spec(env.observation_space, (lead[0] + 1, lead[1]))
        self.observation = [empty(spec) for spec in tf.nest.flatten(observation)]
        self.action = [empty(spec) for spec in tf.nest.flatten(space_spec(env.action_space, lead))]
        self.reward = np.zeros(lead, np.float32)
        self.flags = np.zeros((3, *lead), np.float32)  # terminated, truncated, mask
        self.running = np.zeros((2, *lead), np.float32)  # return and length of the running episode
        self.extras = [np.zeros(lead, np.float32) for _ in agent.trajectory_extras]
        nests = (spaces.Dict, spaces.Tuple)
        self._nested_observation = isinstance(env.observation_space, nests)
        self._nested_action = isinstance(env.action_space, nests)

    def write(self, t: int, observation: Nest, action: Nest, ended: np.ndarray, extras: list) -> None:
        self._write_nest(self.observation, t, observation, self._nested_observation)
        self._write_nest(self.action, t, action, self._nested_action)
        np.logical_not(ended, out=self.flags[2, t], casting="unsafe")
        for array, value in zip(self.extras, extras, strict=True):
            array[t] = value

    def write_result(
        self, t: int, reward: Any, terminated: Any, truncated: Any, total: Any, length: Any
    ) -> None:
        self.reward[t] = reward
        self.flags[0, t] = terminated
        self.flags[1, t] = truncated
        self.running[0, t] = total
        self.running[1, t] = length

    def write_last(self, observation: Nest) -> None:
        self._write_nest(self.observation, -1, observation, self._nested_observation)

    def arrays(self) -> tuple:
        return self.observation, self.action, self.reward, self.flags, self.running, self.extras

    @staticmethod
    def _write_nest(arrays: list[np.ndarray], t: int, value: Nest, nested: bool) -> None:
        if not nested:
            arrays[0][t] = value
            return
        for array, leaf in zip(arrays, tf.nest.flatten(value), strict=True):
            array[t] = leaf
