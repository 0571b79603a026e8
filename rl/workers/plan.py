"""What a run is told of its workers. Nothing here imports Ray."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple

from rl.errors import UsageError


class Workers(NamedTuple):
    """How many workers a run has, and where."""

    count: int
    address: str | None = None  # of a Ray cluster; None: this machine
    user_modules: tuple[str, ...] = ()  # that workers import first


def check_ray() -> None:
    """Raises UsageError where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError(
            "workers need Ray, which is not installed: run ./setup.sh, or pip install 'ray>=2.60,<3'"
        )
