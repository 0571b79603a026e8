"""What a run is told of its workers. Nothing here imports Ray."""

from __future__ import annotations

import importlib.util
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


def rollouts_sent_as_one(agent: Any) -> int:
    """How many rollouts a worker sends together: for memories of sequences, as many as hold a whole one."""
    hparams = agent.hparams
    if agent.experience != "sequence":
        return 1
    return -(-(hparams.burn_in + hparams.unroll_length) // hparams.rollout_length)
