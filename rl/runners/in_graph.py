"""The in-graph runner: environment, rollout, memory and updates in one compiled function.

The "Anakin" architecture (Hessel et al. 2021, "Podracer architectures for scalable reinforcement
learning"). Python runs once per row of metrics, or about twice a second if rows are further apart, to see
whether the run was asked to stop; in between, nothing leaves the compiled code.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from rl.agents.agent import network_state
from rl.data.recorder import Recorder
from rl.heartbeat import doing
from rl.ops import loops, random
from rl.ops.episodes import Episodes, Running, Team
from rl.ops.rows import Rows
from rl.parallel import replicas
from rl.parallel.devices import Devices
from rl.runners.base import GoOn, Runner
from rl.runners.iteration import Iteration
from rl.runners.own_returns import OwnReturns
from rl.runners.parts import start_mode
from rl.runners.recording import RecordedLoop
from rl.runners.seeds import first_seed, rollout_seeds
from rl.spaces import space_spec
from rl.types import Nest, Tensor, TimeStep, Trajectory

LONG, SHORT = 1.0, 0.25  # seconds that a call of the compiled loop should take at most, and at least


class Carry(NamedTuple):
    """The state that is carried from one environment step to the next, within and between rollouts."""

    state: Nest  # of the environment, leaves [B, ...]
    observation: Nest  # [B, ...]
    recurrent_state: Nest  # of the policy, leaves [B, ...]
    ended: Tensor  # [B] bool: the next step is an autoreset step
    running: Running  # [B]


class Record(NamedTuple):
    """What a rollout records of a step, [B, ...]; stacked over its steps, [T, B, ...]."""

    observation: Nest
    action: Nest
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    mask: Tensor
    extras: dict[str, Tensor]
    running: Running


class LoopRunner(Runner):
    """Makes iterations in one compiled loop that returns only the sums of metrics to Python.

    A subclass chooses the source for `Iteration.run`, and calls `compile` once everything that the loop reads
    exists.
    """

    def compile(self, source: Any, jit_compile: bool) -> None:
        """Compiles the loop. source: as `Iteration.run` takes it."""
        self.pack, self._source = loops.MetricPack(), source
        self._totals = [loops.MetricPack.empty() for _ in range(self.devices.count)]
        self._chunk = 1  # iterations of the next call
        signature = [tf.TensorSpec([], tf.int32), tf.TensorSpec([loops.MAX_METRICS], tf.float32)]
        self._loop = self.devices.compile(self._iterate, signature, jit_compile)

    def advance(self, iterations: int, go_on: GoOn | None = None) -> int:
        made = 0
        while made < iterations:
            count = iterations - made if go_on is None else min(self._chunk, iterations - made)
            begun = time.perf_counter()
            arguments = [[tf.constant(count), tf.constant(total)] for total in self._totals]
            doing("the compiled iterations")
            self._totals = [np.array(each) for each in self._loop(arguments)]
            made += count
            if go_on is None:
                continue
            seconds = time.perf_counter() - begun
            if seconds > LONG:  # the first call compiles
                self._chunk = max(1, int(self._chunk * LONG / seconds))
            elif seconds < SHORT and count == self._chunk:
                self._chunk *= 4
            if not go_on(made):
                break
        return made

    def _iterate(self, iterations: Tensor, sums: Tensor) -> Tensor:
        """Adds the metrics of some iterations to `sums`."""

        def body(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, self.pack.join(total, self.pack.pack(self.iteration.run(self._source)))

        return tf.while_loop(lambda i, _: i < iterations, body, (tf.constant(0), sums))[1]


class InGraphRunner(LoopRunner):
    """Runs an environment made of tensor functions.

    Args:
        env: a GraphEnv of `num_envs` environments.
        iteration: agent and memory.
        jit_compile: whether XLA compiles the loop.
        devices: those that share the environments; `env` has the environments of one device.
    """

    def __init__(self, env: Any, iteration: Iteration, jit_compile: bool, devices: Devices):
        with devices.scope():
            super().__init__(iteration, devices)
            self.env, self._team = env, Team(env.agents, env.team_share)
            self.own_returns = OwnReturns.of(env, env.num_envs // env.agents, "env")
            start = self._start(first_seed(iteration.root_seed))
            self._carry = tf.nest.map_structure(lambda x: tf.Variable(x, trainable=False), start)
        for place in range(1, devices.count):
            self._start_apart(place, self._start(first_seed(iteration.root_seed, place)))
        self.compile(devices.compiled_part(self._rollout, jit_compile), jit_compile)

    @property
    def variables(self) -> dict[str, Any]:
        leaves = tf.nest.flatten(self._carry)
        own = {f"env/{i}": variable for i, variable in enumerate(leaves)}
        return super().variables | self.devices.named(own)

    @property
    def repeatable(self) -> bool:
        """See `Runner.repeatable`."""
        return self.recorder is None and self.fingerprint is None and self.devices.count == 1

    def record_to(self, recorder: Recorder) -> None:
        """Does what `Runner.record_to` says."""
        jit_compile = start_mode(self.agent, in_graph=True) == "xla"
        self.recorder, self._loop = recorder, RecordedLoop(self, self._rollout, recorder, jit_compile)

    def _start_apart(self, place: int, start: Carry) -> None:
        """Sets the start of one device, so that devices begin with different episodes."""
        for variable, value in zip(tf.nest.flatten(self._carry), tf.nest.flatten(start), strict=True):
            self.devices.values(variable)[place].assign(value)

    def _start(self, seed: Tensor) -> Carry:
        """The beginning of an episode in every environment."""
        env = self.env
        state, first = env.reset(seed)
        zeros = tf.zeros([env.num_envs // env.agents])
        recurrent_state = self.agent.initial_state(env.num_envs)
        never = tf.zeros([env.num_envs], tf.bool)
        return Carry(state, first.observation, recurrent_state, never, Running(zeros, zeros))

    def _rollout(self, seed: Tensor, step: Tensor) -> tuple[Trajectory, Episodes]:
        """`rollout_length` steps of every environment, from where the last rollout stopped.

        Agents that compare parameters get fresh episodes: one set of parameters must play a whole episode.
        """
        agent, env = self.agent, self.env
        length = agent.hparams.rollout_length
        noise_seed, loop_seed, start_seed = rollout_seeds(seed)
        agent.resample_noise(noise_seed)
        if agent.experience == "parameters":
            start = self._start(start_seed)
        else:
            start = tf.nest.map_structure(lambda variable: variable.value(), self._carry)
        seeds = random.split_array(loop_seed, [length, 2])  # [T, 2, 2]
        carry, rows = self._played(start, seeds, step)
        tf.nest.map_structure(lambda variable, x: variable.assign(x), self._carry, carry)
        trajectory, played = trajectory_of(rows, carry, start, self._team)
        if self.own_returns is not None:
            self.own_returns.add(trajectory, self._team.any(trajectory.mask), played.ended)
        return trajectory, played._replace(regret=env.regret(rows.observation, rows.action, rows.reward))

    def _played(self, start: Carry, seeds: Tensor, step: Tensor) -> tuple[Carry, Record]:
        """A step of every environment for each of the seeds [T, 2, 2], from `start` on."""
        length, envs = seeds.shape[0], self.env.num_envs // self.env.agents
        rows = Rows(self._row(), length)

        def body(t: Tensor, carry: Carry, arrays: list[Any]) -> tuple[Tensor, Carry, list[Any]]:
            now = step + replicas.count() * envs * tf.cast(t, tf.int64)
            advanced, row = self._step(carry, tf.gather(seeds, t), now)
            return t + 1, advanced, rows.write(arrays, t, row)

        _, carry, arrays = tf.while_loop(
            lambda t, *_: t < length,
            body,
            (tf.constant(0), start, rows.arrays()),
            maximum_iterations=length,
        )
        return carry, rows.stack(arrays)

    def _step(self, carry: Carry, seeds: Tensor, now: Tensor) -> tuple[Carry, Record]:
        """One step of every environment, by seeds [2, 2], at `now` environment steps."""
        act_seed, env_seed = tf.unstack(seeds)
        action, extras, memory = self._act(carry, act_seed, now)
        state, following = self.env.step(carry.state, action, env_seed)
        return _advance(carry, state, memory, action, extras, following, self._team)

    def _act(self, carry: Carry, seed: Tensor, step: Tensor) -> tuple[Nest, dict[str, Tensor], Nest]:
        """(actions, extras for the trajectory, next recurrent state), as `Agent.act`."""
        return self.agent.act(carry.observation, carry.recurrent_state, seed, step, True)

    def _kept(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the trajectory's extras for one environment, float32 each, by name."""
        return dict.fromkeys(self.agent.trajectory_extras, ())

    def _row(self) -> Record:
        """Specs of the record of one step."""
        num_envs = self.env.num_envs
        flag, number = tf.TensorSpec([num_envs], tf.bool), tf.TensorSpec([num_envs], tf.float32)
        running = tf.TensorSpec([num_envs // self.env.agents], tf.float32)
        return Record(
            space_spec(self.env.observation_space, (num_envs,)),
            space_spec(self.env.action_space, (num_envs,)),
            number,
            flag,
            flag,
            number,
            {name: tf.TensorSpec([num_envs, *shape], tf.float32) for name, shape in self._kept().items()},
            Running(running, running),
        )


def _advance(
    carry: Carry,
    state: Nest,
    recurrent_state: Nest,
    action: Nest,
    extras: dict[str, Tensor],
    following: TimeStep,
    team: Team,
) -> tuple[Carry, Record]:
    """Returns the next carry, and the record of the step.

    The recurrent state is reset after the autoreset step and not before, so that the value of an episode's
    last observation depends on that episode's history.
    """
    alive = 1.0 - tf.cast(carry.ended, tf.float32)  # [B]: 0 where this was the autoreset step
    playing = team.any(alive)
    running = carry.running.after(playing, team.reward(following.reward), playing)
    ended = tf.logical_or(following.terminated, following.truncated)
    row = Record(
        carry.observation,
        action,
        following.reward,
        team.new(following.terminated, carry.ended),
        following.truncated,
        alive,
        extras,
        running,
    )
    recurrent_state = tf.nest.map_structure(
        lambda x: x * tf.reshape(alive, [-1] + [1] * (x.shape.rank - 1)), recurrent_state
    )
    return Carry(state, following.observation, recurrent_state, ended, running), row


def trajectory_of(rows: Record, carry: Carry, start: Carry, team: Team) -> tuple[Trajectory, Episodes]:
    """Returns the trajectory and the episodes of rows that were played from `start` to `carry`."""
    observation = tf.nest.map_structure(
        lambda x, last: tf.concat([x, last[None]], 0), rows.observation, carry.observation
    )  # [T+1, B, ...]
    trajectory = Trajectory(
        observation,
        rows.action,
        rows.reward,
        rows.terminated,
        rows.truncated,
        rows.mask,
        rows.extras,
        network_state(start.recurrent_state),
    )
    return trajectory, Episodes(rows.running, team.ended(rows.terminated, rows.truncated, rows.mask))
