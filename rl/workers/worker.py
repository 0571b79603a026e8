"""The worker role: acts in its own environments, and fetches the newest weights before each rollout.

Nothing here imports TensorFlow: if the policy can be converted, a worker starts in a second without it.
"""

from __future__ import annotations

import gc
import os
import time
from typing import Any, NamedTuple

import numpy as np

from rl.envs.faults import watched
from rl.envs.make import make_env
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.registry import import_user_modules
from rl.runners.acting import Acting, Portable
from rl.runners.collect import Collector, EpisodeSums, Window, joined_sums
from rl.workers.weights import Version

LEAST = 4096  # bytes: smaller arrays are not worth compressing


class Assignment(NamedTuple):
    """The parameters of a worker, which it gets when it starts."""

    worker: int  # which one it is, from 0
    hparams: dict[str, Any]  # HParams.to_dict
    user_modules: tuple[str, ...]  # modules that register the user's own parts
    first: int  # it plays rows first, first + 1 ... of `rows`
    size: int  # how many
    rows: int  # of all workers together
    agents: int  # rows of each environment
    window: int  # rollouts that are sent as one; windows overlap, so most rollouts are sent several times
    fresh: bool  # whether every rollout begins with fresh episodes
    own_values: np.ndarray  # float32 [m], acting variables besides the weights: its own exploration
    seed: int  # of the run, for noise that must be the same for learner and workers
    own_seed: int  # of its environments and its exploration; different for its replacement


class Compressed(NamedTuple):
    """An array of bytes, compressed by LZ4."""

    data: bytes
    shape: tuple[int, ...]


class Sent(NamedTuple):
    """Statistics of sending a rollout."""

    raw: int  # bytes of its arrays
    sent: int  # bytes that travel
    seconds: float  # that the compression took


class Rollout(NamedTuple):
    """A rollout, as a worker sends it."""

    worker: int  # who made it
    arrays: Any  # `Block.arrays`, as `packed` gave them; or a reference to that
    version: int  # of the weights that acted
    sums: dict[str, float]  # over its finished episodes, as `rl.ops.episodes.sums`
    sent: Sent = Sent(0, 0, 0.0)
    told: tuple[str, ...] = ()  # log lines on environments that were remade after failures


class Worker:
    """A process that plays rollouts. Its methods are called through Ray, one after another.

    Args:
        assignment: what it is.
        weights: handle of the `Weights` actor.
        policy: how it acts, converted by the learner; None: through TensorFlow, from the hparams.
    """

    def __init__(self, assignment: Assignment, weights: Any, policy: Portable | None = None):
        self._assignment, self._weights, self._portable = assignment, weights, policy
        self._version, self._step, self._made = -1, 0, 0
        self._ahead = 0  # rollouts that filled the first window, beyond one for each iteration
        self._collector: Collector | None = None
        self._told: tuple[str, ...] = ()

    def rollout(self, iteration: int | None = None) -> Rollout:
        """Plays the next rollout with the newest weights; returns it, joined with the ones before if a window
        has several.

        iteration: of the learner, if all workers make one rollout together; None: asynchronous.
        """
        collector = self._collector or self._prepare()
        sums = self._play(collector, iteration)
        if self._window is None:
            return self._sent(self._block.arrays(), sums)
        while not self._window.add(self._block):
            self._ahead += 1
            more = self._play(collector, iteration)
            sums = joined_sums(sums, more)
        return self._sent(self._window.arrays(), sums)

    def rollout_apart(self, iteration: int | None = None) -> tuple[Rollout, list[np.ndarray]]:
        """Plays the next rollout; returns it without its arrays, and the arrays: two objects, which may go to
        different processes."""
        rollout = self.rollout(iteration)
        return rollout._replace(arrays=None), rollout.arrays

    def _sent(self, arrays: list[np.ndarray], sums: dict[str, float]) -> Rollout:
        arrays, sent = packed(arrays, self._compress)
        told, self._told = self._told, ()
        return Rollout(self._assignment.worker, arrays, self._version, sums, sent, told)

    def _play(self, collector: Collector, iteration: int | None) -> dict[str, float]:
        """One rollout into the block; sums over its finished episodes."""
        self._update(iteration)
        if collector.observation is None:
            collector.reset(self._assignment.own_seed)
        # It seeds the draws: none comes twice.
        number = self._made if iteration is None else iteration + self._ahead
        collector.collect(self._block, number, self._step)
        self._made += 1
        self._told += tuple(collector.env.told)
        collector.env.told.clear()
        return self._episodes.sums(self._block.numbers, self._block.rows()[0])

    def _prepare(self) -> Collector:
        """Environments and policy; not in the constructor, whose errors Ray reports as the actor's death."""
        assignment = self._assignment
        import_user_modules(assignment.user_modules)
        hparams = HParams.from_dict(assignment.hparams).freeze()
        env = watched(lambda: worker_env(hparams, assignment.size // assignment.agents), hparams)
        self._policy: Any
        if self._portable is not None:
            self._policy = Converted(self._portable, assignment)
        else:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
            os.environ["CUDA_VISIBLE_DEVICES"] = "-1"  # acting is for cores; accelerators are the learner's
            from rl.workers.agent_policy import AgentPolicy

            self._policy = AgentPolicy(hparams, env, assignment)
        length, fresh = hparams.rollout_length, assignment.fresh
        self._compress = hparams.compress_rollouts
        collector = Collector(env, self._policy.actor, length, fresh, assignment.own_seed)
        self._block = collector.block()
        self._window = Window(assignment.window) if assignment.window > 1 else None
        self._episodes = EpisodeSums(env, fresh)
        self._collector = collector
        gc.collect()
        gc.freeze()  # imports and environments stay alive: the garbage collector need not scan them
        return collector

    def _update(self, iteration: int | None) -> None:
        """Takes the newest weights where there are newer ones."""
        import ray

        newest = ray.get(self._weights.newest.remote(self._version))
        # None: the weights role was restarted, and the learner will publish again. If all workers make a
        # rollout together, they need the weights of that iteration, which may not have been published yet.
        while newest is None or (iteration is not None and _number(newest) < iteration):
            time.sleep(0.05 if newest is None else 0.002)
            newest = ray.get(self._weights.newest.remote(self._version))
        if isinstance(newest, Version):
            self._policy.take(newest.weights())
            self._version, self._step = newest.number, newest.step
        self._policy.begin(self._made, iteration)


def _number(newest: Version | int) -> int:
    """The number of a version, or of the one that a worker has."""
    return newest if isinstance(newest, int) else newest.number


class Converted:
    """A policy that the learner has converted: no TensorFlow here."""

    def __init__(self, portable: Portable, assignment: Assignment):
        self.actor = Acting.of(portable, assignment.own_seed)
        self._own = assignment.own_values

    def take(self, flat: np.ndarray) -> None:
        """Takes over the policy's newest weights, float32 [n]."""
        self.actor.sync(np.concatenate([flat, self._own]))

    def begin(self, made: int, iteration: int | None) -> None:
        """Does nothing before a rollout: a converted policy draws no noise of its own."""


def worker_env(hparams: Any, count: int) -> Any:
    """Returns `count` environments of a worker: host environments, also where there is an in-graph version.

    Raises:
        UsageError: as `make_env`; `env_backend` asks for in-graph ones.
    """
    if hparams.env_backend == "graph":
        raise UsageError("env_backend=graph is for runs without workers: leave it at auto with --num_workers")
    return make_env(
        hparams.env,
        "host" if hparams.env_backend == "auto" else hparams.env_backend,
        count,
        hparams.env_kwargs | hparams.train_env_kwargs,
        hparams.max_episode_steps,
        hparams.previous_action_reward,
        hparams.frame_stack,
        hparams.env_wrappers,
        hparams.view,
    )


def packed(arrays: list[np.ndarray], compress: bool) -> tuple[list[Any], Sent]:
    """Returns the arrays as they are sent: with `compress`, those of uint8 (pictures) compressed."""
    raw = sum(each.nbytes for each in arrays)
    if not compress:
        return arrays, Sent(raw, raw, 0.0)
    import lz4.frame

    begun, sent = time.perf_counter(), 0
    found: list[Any] = []
    for each in arrays:
        if each.dtype == np.uint8 and each.nbytes >= LEAST:
            data = lz4.frame.compress(np.ascontiguousarray(each).data)
            found.append(Compressed(data, each.shape))
            sent += len(data)
        else:
            found.append(each)
            sent += each.nbytes
    return found, Sent(raw, sent, time.perf_counter() - begun)


def unpacked(arrays: list[Any]) -> list[np.ndarray]:
    """Returns the arrays as they were."""
    return [_expanded(each) if isinstance(each, Compressed) else each for each in arrays]


def _expanded(each: Compressed) -> np.ndarray:
    import lz4.frame

    return np.frombuffer(lz4.frame.decompress(each.data), np.uint8).reshape(each.shape)
