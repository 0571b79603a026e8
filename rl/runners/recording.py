"""Recording of rollouts as a data set (`--record_data`): its sources, and its metadata on policy and run."""

from __future__ import annotations

import contextlib
import copy
import json
import logging
import os
import zlib
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import tensorflow as tf

from rl.agents.agent import Agent
from rl.data.recorder import Recorder
from rl.errors import UsageError
from rl.ops import loops
from rl.ops.rows import Rows
from rl.report.versions import collect_versions
from rl.request import Request
from rl.runners.base import Runner
from rl.spaces import space_spec
from rl.storage.address import is_remote
from rl.storage.files import plain
from rl.types import Tensor, Trajectory

_log = logging.getLogger("rl")
KEPT = 8 << 20  # bytes of rollouts that a call of the compiled loop returns at most


def training_recorder(request: Request, address: str, runner: Runner) -> Recorder | None:
    """Returns the recorder of a run's training; None without `--record_data`.

    address: of the run.

    Raises:
        UsageError: the data set holds episodes of another environment; the runner cannot record; or the
            folder cannot be written. Nothing is written then.
    """
    if request.record_data is None:
        return None
    agent, hparams = runner.agent, runner.agent.hparams
    policy = {"which": "training", "seed": request.seed, "backend": runner.backend}
    settings = zlib.crc32(json.dumps(hparams.to_dict(), sort_keys=True, default=plain).encode())
    described = _described(agent, request.name, address, policy)
    views = agent.observation_space, agent.action_space
    metadata = metadata_of(agent, hparams.train_env_kwargs)
    owner = address if is_remote(address) else os.path.abspath(address)
    recorder = Recorder(request.record_data, *views, metadata, described, owner, settings)
    runner.record_to(recorder)
    recorder.check_writable()
    return recorder


def policy_recorder(
    folder: str, agent: Agent[Any], name: str | None, address: str, **policy: Any
) -> Recorder:
    """Returns a recorder for episodes of a trained policy.

    name: of its hparams.
    address: of its run.
    policy: further metadata of the policy: which, step, seed.

    Raises:
        UsageError: as `training_recorder`.
    """
    who = _described(agent, name, address, {**policy, "eval_policy": agent.hparams.eval_policy})
    metadata = metadata_of(agent)
    return Recorder(folder, agent.observation_space, agent.action_space, metadata, who)


def _described(agent: Agent[Any], name: str | None, address: str, policy: dict[str, Any]) -> dict[str, Any]:
    return {"hparams": name, "algorithm": agent.hparams.algo, "run": address, **policy}


def metadata_of(agent: Agent[Any], train_env_kwargs: dict[str, Any] | None = None) -> dict[str, Any]:
    """Returns what a new data set says of the environment and of versions (rl.data.metadata).

    train_env_kwargs: options that it had beside those of evaluations.
    """
    hparams, options = agent.hparams, train_env_kwargs or {}
    found = {
        "env_id": hparams.env,
        "env_kwargs": hparams.env_kwargs,
        "train_env_kwargs": options,
        "env_wrappers": list(hparams.env_wrappers),
        "max_episode_steps": hparams.max_episode_steps,
        "algorithm_name": hparams.algo,
        "versions": collect_versions(),
    }
    spec = gymnasium.registry.get(hparams.env)
    if spec is not None and not hparams.env_wrappers:
        with contextlib.suppress(TypeError, ValueError):  # not all can be written
            made = copy.deepcopy(spec)
            made.kwargs = {**made.kwargs, **hparams.env_kwargs, **options}
            made.max_episode_steps = hparams.max_episode_steps or made.max_episode_steps
            found["env_spec"] = made.to_json()
    return found


@contextlib.contextmanager
def recorded(runner: Runner, recorder: Recorder | None, total: int) -> Iterator[None]:
    """Records what `runner` plays within, from its step on; `total`: steps after which the run is over.

    Raises:
        UsageError: the data set cannot be written (Unavailable where that may pass).
    """
    if recorder is None or runner.step >= total:
        if recorder is not None:
            _log.warning("nothing is left to train, or to record: --training False records the test")
        yield
        return
    recorder.begin(runner.step)
    try:
        yield
    except BaseException:
        recorder.abandon()
        raise
    recorder.close(go_on=runner.step < total)


class RecordedLoop:
    """The compiled loop of an in-graph runner, which gives the rollouts to a recorder as well.

    Args:
        runner: whose loop it is, of one device.
        rollout: as `Iteration.run` takes it.
        recorder: is told of the rollouts.
        jit_compile: whether XLA compiles it.
    """

    def __init__(self, runner: Any, rollout: Any, recorder: Recorder, jit_compile: bool):
        if runner.devices.count > 1:
            raise UsageError("--record_data: in-graph environments are recorded on one device alone")
        self._runner, self._rollout, self._recorder = runner, rollout, recorder
        hparams = runner.agent.hparams
        self._length = hparams.rollout_length
        self._fresh = runner.agent.experience == "parameters"
        self._kept = [name for name in runner.agent.trajectory_extras if name == "log_prob"]
        self._specs = self._rows_of(runner)
        size = sum(spec.dtype.size * int(np.prod(spec.shape)) for spec in tf.nest.flatten(self._specs))
        self._most = max(1, KEPT // size)  # iterations of a call
        signature = [tf.TensorSpec([], tf.int32), tf.TensorSpec([loops.MAX_METRICS], tf.float32)]
        self._call = runner.devices.compile(self._iterate, signature, jit_compile)

    def _rows_of(self, runner: Any) -> Trajectory:
        lead = (self._length, runner.env.num_envs)
        flag, number = tf.TensorSpec(lead, tf.bool), tf.TensorSpec(lead, tf.float32)
        observation = space_spec(runner.env.observation_space, (lead[0] + 1, lead[1]))
        action = space_spec(runner.env.action_space, lead)
        return Trajectory(
            observation, action, number, flag, flag, number, {name: number for name in self._kept}
        )

    def __call__(self, arguments: list[list[Any]]) -> list[Any]:
        """Makes iterations, as the loop without a recorder does."""
        ((count, total),) = arguments
        left = int(count)
        while left:
            made, step = min(left, self._most), self._runner.step
            ((total, rows),) = self._call([[tf.constant(made), tf.constant(total)]])
            self._tell(step, made, tf.nest.map_structure(np.asarray, rows))
            left -= made
        return [total]

    def _iterate(self, iterations: Tensor, sums: Tensor) -> tuple[Tensor, Trajectory]:
        """Adds the metrics of some iterations to `sums`; returns their rollouts too, [most, ...]."""
        runner, kept = self._runner, Rows(self._specs, self._most)

        def body(i: Tensor, total: Tensor, arrays: list[Any]) -> tuple[Tensor, Tensor, list[Any]]:
            played = []

            def rollout(seed: Tensor, step: Tensor) -> Any:
                found = self._rollout(seed, step)
                extras = {name: found[0].extras[name] for name in self._kept}
                played.append(found[0]._replace(extras=extras, recurrent_state=()))
                return found

            metrics = runner.pack.pack(runner.iteration.run(rollout))
            return i + 1, runner.pack.join(total, metrics), kept.write(arrays, i, played[0])

        state = (tf.constant(0), sums, kept.arrays())
        _, total, arrays = tf.while_loop(
            lambda i, *_: i < iterations, body, state, maximum_iterations=self._most
        )
        return total, kept.stack(arrays)

    def _tell(self, step: int, made: int, rows: Trajectory) -> None:
        length, per_iteration = self._length, self._runner.steps_per_iteration
        if self._fresh:
            for i in range(made):
                self._add(step + i * per_iteration, tf.nest.map_structure(lambda x, i=i: x[i], rows))
            return

        def flat(x: np.ndarray) -> np.ndarray:  # [iterations, T, ...] -> [iterations * T, ...]
            return x[:made].reshape(made * length, *x.shape[2:])

        observation = tf.nest.map_structure(
            lambda x: np.concatenate([flat(x[:, :length]), x[made - 1, length:]]), rows.observation
        )
        flattened = tf.nest.map_structure(flat, rows._replace(observation=()))
        self._add(step, flattened._replace(observation=observation))

    def _add(self, step: int, rows: Trajectory) -> None:
        flags = rows.terminated, rows.truncated, rows.mask
        columns = rows.observation, rows.action, rows.reward, *flags
        known = {"log_prob": rows.extras.get("log_prob"), "agents": self._runner.env.agents}
        self._recorder.add(step, *columns, fresh=self._fresh, **known)
