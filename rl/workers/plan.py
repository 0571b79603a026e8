"""How a run is divided among workers and learners. Nothing here imports Ray."""

from __future__ import annotations

import importlib.util
import os
import socket
from typing import Any, NamedTuple

from rl.errors import UsageError


class Workers(NamedTuple):
    """How many workers a run has, and where."""

    number: int
    address: str | None = None  # of a Ray cluster; None: this machine
    user_modules: tuple[str, ...] = ()  # that workers import first


def check_ray() -> None:
    """Raises UsageError where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("workers need Ray, which is not installed: run ./setup.sh --extra ray")


def shares(parallel: int) -> list[list[int]]:
    """Returns the numbers of the cores of each of `parallel` processes, of those that this process may use;
    empty lists if they are fewer than the processes, or if the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return [[] for _ in range(parallel)]
    cores = sorted(os.sched_getaffinity(0))
    each = len(cores) // parallel
    return [cores[i * each : (i + 1) * each] for i in range(parallel)]


def check_address(address: str) -> None:
    """Raises UsageError unless something answers at the address of a Ray cluster; Ray would try for ever.

    address: HOST:PORT of its head, or "auto": the cluster that this machine belongs to.
    """
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and int(port) < 65536) or "/" in host:
        raise UsageError(
            f"--ray_address {address!r}: needs HOST:PORT of a cluster's head, such as 10.0.0.7:6379, or auto"
        )
    try:
        socket.create_connection((host, int(port)), timeout=5.0).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"--ray_address {address}: nothing answers there ({reason}): is the cluster up (ray status)?"
        ) from error


def rollouts_sent_as_one(agent: Any) -> int:
    """Returns how many rollouts a worker sends together: for memories of sequences, as many as a whole
    sequence needs."""
    hparams = agent.hparams
    if agent.experience != "sequence":
        return 1
    return int(-(-(hparams.burn_in + hparams.unroll_length) // hparams.rollout_length))


class Division(NamedTuple):
    """The parts of a run that workers and learners have."""

    own: Any  # HParams of one learner's part
    envs_of_a_worker: int
    envs_of_a_learner: int  # B of the rollouts that it learns from, after joining


def together(experience: str, hparams: Any) -> bool:
    """Returns whether workers make each rollout together, in place of one each."""
    return hparams.sync_workers or experience == "parameters"


def division(hparams: Any, workers: Workers, all_together: bool) -> Division:
    """Divides a run among its workers and learners.

    all_together: whether workers make each rollout together; else each makes its own.

    Raises:
        UsageError: it cannot be divided.
    """
    number, learners = workers.number, hparams.num_learners
    if number % learners:
        raise UsageError(
            f"{learners} learners cannot share {number} workers: take a multiple of them for --num_workers"
        )
    if not all_together:
        return Division(hparams, hparams.num_envs, hparams.num_envs)
    if hparams.num_envs % number:
        alone = ", or sync_workers=false" if hparams.sync_workers else ""
        raise UsageError(
            f"{number} workers cannot share num_envs={hparams.num_envs}: take a divisor of it{alone}"
        )
    own = type(hparams).from_dict(hparams.to_dict())
    own.num_envs = hparams.num_envs // learners
    if hparams.buffer_shards and learners > 1:
        if hparams.batch_size % learners:
            raise UsageError(f"{learners} learners cannot share batch_size={hparams.batch_size}")
        own.batch_size = hparams.batch_size // learners
    return Division(own.freeze(), hparams.num_envs // number, own.num_envs)


def shard_of(hparams: Any, batch_size: int) -> Any:
    """Returns the hparams of one of `buffer_shards` buffers.

    batch_size: of one learner.
    """
    shards = hparams.buffer_shards
    own = type(hparams).from_dict(hparams.to_dict())
    own.replay_capacity = hparams.replay_capacity // shards
    own.min_replay_size = -(-hparams.min_replay_size // shards)
    own.batch_size = batch_size
    return own.freeze()


def check_roles(agent_type: Any, hparams: Any, workers: Workers | None) -> None:
    """Raises UsageError where the hparams ask for buffers or several learners that this run does not
    support."""
    learners, shards = hparams.num_learners, hparams.buffer_shards
    if learners == 1 and not shards:
        return
    asked = f"num_learners={learners}" if learners > 1 else f"buffer_shards={shards}"
    samples = agent_type.experience in ("transition", "sequence")
    if workers is None:
        raise UsageError(f"{asked} is for runs with workers: give --num_workers N with it")
    if agent_type.experience == "parameters":
        raise UsageError(
            f"{asked}: {hparams.algo} compares parameters, which takes one learner and no buffer"
        )
    if shards and not samples:
        raise UsageError(
            f"buffer_shards={shards}: {hparams.algo} learns from rollouts, which no buffer keeps"
        )
    if samples and not shards:
        raise UsageError(
            f"{asked}: learners of {hparams.algo} sample from buffers: set buffer_shards=1 or more"
        )
    if shards and (hparams.normalize_reward or hparams.normalize_observation):
        raise UsageError(
            f"buffer_shards={shards}: statistics for normalize_reward and normalize_observation are the "
            "learner's, which rollouts do not pass: leave them out, or the buffers"
        )
    if shards > workers.number:
        raise UsageError(f"buffer_shards={shards}: {workers.number} workers fill at most as many buffers")
    if learners > 1 and hparams.compile == "xla":
        raise UsageError(
            f"{asked} and compile=xla: XLA cannot compile what learners exchange; leave compile at auto"
        )
