"""What a run is told of its workers. Nothing here imports Ray."""

from __future__ import annotations

import importlib.util
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
        raise UsageError(
            "workers need Ray, which is not installed: run ./setup.sh, or pip install 'ray>=2.60,<3'"
        )


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
    """How many rollouts a worker sends together: for memories of sequences, as many as hold a whole one."""
    hparams = agent.hparams
    if agent.experience != "sequence":
        return 1
    return -(-(hparams.burn_in + hparams.unroll_length) // hparams.rollout_length)
