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
from gymnasium import spaces

from rl.agents.agent import network_state
from rl.ops import loops, random
from rl.runners.actor import Actor, flat_weights
from rl.runners.base import Runner, episode_sums, running_sums
from rl.runners.learner import Learner
from rl.spaces import space_spec
from rl.types import Nest, Tensor, Trajectory

# Rows of a block's one array of numbers, [T, B] each; the agent's extras follow.
NUMBERS = ("reward", "terminated", "truncated", "mask", "life_lost")


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
        self._return = tf.Variable(tf.zeros([env.num_envs]), trainable=False)  # of the running episode
        self._episode_length = tf.Variable(tf.zeros([env.num_envs]), trainable=False)
        # At the last step; not saved, for a run that goes on begins new episodes.
        self._life_lost = tf.Variable(tf.zeros([env.num_envs], tf.bool), trainable=False)
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
        found = {f"host/observation/{i}": each for i, each in enumerate(self._reached)}
        found |= {"host/running_return": self._return, "host/running_length": self._episode_length}
        return super().variables | found

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
                total += self._finish(self._learn(block.arrays()))
                continue
            if self._pending is not None:
                total += self._finish(self._pending.result())
            self._pending = self._thread.submit(self._learn, block.arrays())
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
            self.learner.memory.cut()

    def _finish(self, result: Tensor) -> np.ndarray:
        vector = result.numpy()
        self.actor.sync(vector[loops.MAX_METRICS :])
        return vector[: loops.MAX_METRICS]

    def _collect(self, block: _Block, iteration: int) -> None:
        """One rollout into `block`."""
        actor, num_envs = self.actor, self.env.num_envs
        observation, ended = self._observation, self._ended
        step = iteration * self.steps_per_iteration
        actor.begin(iteration, self.length)
        if self.learner.agent.experience == "parameters":
            observation, ended = self._fresh_episodes(iteration)
        block.write_state(actor.network_state)
        for t in range(self.length):
            action, extras = actor(observation, t, step + t * num_envs)
            block.write(t, observation, action, ended, extras)
            observation, reward, terminated, truncated = self._step(action)
            if ended.any():
                actor.forget(ended)
            ended = terminated | truncated
            block.write_result(t, reward, terminated, truncated)
            if self.env.life_lost is not None:
                block.numbers[4, t] = self.env.life_lost
        block.write_observation(self.length, observation)
        self._observation, self._ended = observation, ended

    def _fresh_episodes(self, iteration: int) -> tuple[Nest, np.ndarray]:
        """Starts all environments anew, for agents that compare parameters by whole episodes."""
        seed = np.random.SeedSequence([self.seed, 1, iteration]).generate_state(1)[0]
        self.actor.forget()
        self._fresh = None
        return self.env.reset(int(seed) % 2**31), np.zeros(self.env.num_envs, bool)

    def _step(self, action: Nest) -> tuple[Nest, np.ndarray, np.ndarray, np.ndarray]:
        if self._fresh is None:
            return self.env.step(action)
        fresh, self._fresh = self._fresh, None
        never = np.zeros(self.env.num_envs, bool)
        return fresh, np.zeros(self.env.num_envs, np.float32), never, never

    def _learn_function(self, jit_compile: bool) -> Any:
        """The compiled function: a block's arrays in; packed metrics and new weights out, as one vector.

        Few arguments, one result and a concrete function: each argument, result and check of signatures costs
        tens of microseconds, which with one environment is more than a step takes.
        """
        env, extras = self.env, self.learner.agent.trajectory_extras
        lead = (self.length, env.num_envs)
        observation = tf.nest.flatten(space_spec(env.observation_space, (lead[0] + 1, lead[1])))
        action = tf.nest.flatten(space_spec(env.action_space, lead))
        state_structure = network_state(self.learner.agent.initial_state(env.num_envs))
        state = [tf.TensorSpec(each.shape, each.dtype) for each in tf.nest.flatten(state_structure)]
        numbers = tf.TensorSpec((len(NUMBERS) + len(extras), *lead), tf.float32)
        signature = [*observation, *action, *state, numbers]
        split, end = len(observation), len(observation) + len(action)

        def learn(*arrays: Tensor) -> Tensor:
            numbers = dict(zip((*NUMBERS, *extras), tf.unstack(arrays[-1]), strict=True))  # [T, B] each
            trajectory = Trajectory(
                tf.nest.pack_sequence_as(space_spec(env.observation_space, ()), arrays[:split]),
                tf.nest.pack_sequence_as(space_spec(env.action_space, ()), arrays[split:end]),
                numbers["reward"],
                numbers["terminated"] > 0.0,
                numbers["truncated"] > 0.0,
                numbers["mask"],
                {name: numbers[name] for name in extras},
                tf.nest.pack_sequence_as(state_structure, arrays[end:-1]),
            )
            metrics = self._episode_metrics(trajectory, numbers["life_lost"] > 0.0)
            return tf.concat([self._iterate(trajectory, metrics), flat_weights(self.learner.agent)], 0)

        function = tf.function(learn, jit_compile=jit_compile, input_signature=signature, autograph=False)
        concrete = function.get_concrete_function() if not tf.config.functions_run_eagerly() else function
        return lambda arrays: concrete(*[tf.constant(each) for each in arrays])

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

    def _iterate(self, trajectory: Trajectory, metrics: dict[str, Tensor]) -> Tensor:
        """Learning from one rollout; returns its packed metrics."""
        noise_seed, learn_seed = random.split(random.fold_in(self.root_seed, self.iteration + 1), 2)
        metrics |= self.learner.learn(trajectory, learn_seed, self.step_tensor())
        self.learner.agent.resample_noise(noise_seed)  # of the next rollout
        self.iteration.assign_add(1)
        return self._pack.pack(metrics)


class _Block:
    """The arrays of one rollout on the host, written row by row."""

    def __init__(self, runner: SyncRunner):
        env, extras = runner.env, runner.learner.agent.trajectory_extras
        lead = (runner.length, env.num_envs)

        def empty(space: Any, lead: tuple[int, int]) -> list[np.ndarray]:
            specs = tf.nest.flatten(space_spec(space, lead))
            return [np.zeros(tuple(spec.shape), spec.dtype.as_numpy_dtype) for spec in specs]

        self.observation = empty(env.observation_space, (lead[0] + 1, lead[1]))
        self.action = empty(env.action_space, lead)
        self.state: list[np.ndarray] = []  # of the network, before the first step
        self.numbers = np.zeros((len(NUMBERS) + len(extras), *lead), np.float32)
        self._extras = self.numbers[len(NUMBERS) :]
        self._nested_observation = isinstance(env.observation_space, (spaces.Dict, spaces.Tuple))
        self._nested_action = isinstance(env.action_space, (spaces.Dict, spaces.Tuple))

    def write(self, t: int, observation: Nest, action: Nest, ended: np.ndarray, extras: list) -> None:
        """What was known before the step."""
        self.write_observation(t, observation)
        for array, leaf in self._pairs(self.action, action, self._nested_action):
            array[t] = leaf
        self.numbers[3, t] = ~ended
        for array, value in zip(self._extras, extras, strict=True):
            array[t] = value

    def write_result(self, t: int, *numbers: np.ndarray) -> None:
        """What the step returned: reward, terminated, truncated."""
        for i, value in enumerate(numbers):
            self.numbers[i, t] = value

    def write_state(self, leaves: list[np.ndarray]) -> None:
        self.state = leaves

    def write_observation(self, t: int, observation: Nest) -> None:
        for array, leaf in self._pairs(self.observation, observation, self._nested_observation):
            array[t] = leaf

    def arrays(self) -> list[np.ndarray]:
        return [*self.observation, *self.action, *self.state, self.numbers]

    @staticmethod
    def _pairs(arrays: list[np.ndarray], value: Nest, nested: bool) -> Any:
        return zip(arrays, tf.nest.flatten(value) if nested else (value,), strict=True)
