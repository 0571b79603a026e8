"""EnvPool's tasks by the names that people use: Procgen's games, and Atari's memory as observation.

Beside EnvPool's own ids ("Pong-v5", "CoinrunEasy-v0") there are

* `coinrun` and the other Procgen games, also as `procgen-coinrun-v0`; the option `distribution_mode` is
  "easy" unless it is given ("hard", and "extreme", "memory", "exploration" where the game has them);
* `Pong-ram-v5` and the like: what is observed is the 128 bytes of the console's memory.
"""

from __future__ import annotations

import ctypes
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from rl.errors import UsageError, nearest

ATARI, PROCGEN = "envpool.atari", "envpool.procgen"
QT_LIBRARIES = ("libQt5Core.so.5", "libQt5Gui.so.5")  # in the order in which they need each other


class Task(NamedTuple):
    """What EnvPool is asked for."""

    id: str
    family: str  # module of EnvPool that has it, such as "envpool.atari"
    kwargs: dict[str, Any]
    memory: bool = False  # the console's memory is observed in place of the picture


def has_task(env_id: str) -> bool:
    """Returns whether EnvPool is installed and `env_id` names one of its tasks, here or there."""
    if importlib.util.find_spec("envpool") is None:
        return False
    return env_id in _specs() or _game(env_id) is not None or _pictured(env_id) is not None


def task_ids() -> list[str]:
    """Returns all ids that `has_task` knows, but the games' long names; empty without EnvPool."""
    if importlib.util.find_spec("envpool") is None:
        return []
    memories = [each.replace("-v5", "-ram-v5") for each, family in _specs().items() if family == ATARI]
    return [*_specs(), *sorted(_games()), *memories]


def find_task(env_id: str, kwargs: dict[str, Any]) -> Task:
    """Returns the task that an id and options mean.

    Raises:
        UsageError: the game has no such `distribution_mode`.
    """
    game, pictured, kwargs = _game(env_id), _pictured(env_id), dict(kwargs)
    if env_id in _specs():
        task = Task(env_id, _specs()[env_id], kwargs)
    elif game is not None:
        mode = str(kwargs.pop("distribution_mode", "easy"))
        if mode not in _games()[game]:
            raise UsageError(
                f"environment {env_id} has no distribution_mode {mode!r}: {nearest(mode, _games()[game])}"
            )
        task = Task(_games()[game][mode], PROCGEN, kwargs)
    else:  # pictures would be scaled for nobody: make them as small as EnvPool allows
        assert pictured is not None
        task = Task(pictured, ATARI, {"img_height": 1, "img_width": 1, **kwargs}, memory=True)
    if task.family == PROCGEN:
        load_qt()
        task.kwargs.setdefault("channel_first", False)
    elif task.family == ATARI:
        task.kwargs.setdefault("stack_num", 1)  # stacked by `rl.envs.frames` instead
    return task


def usual_frame_stack(env_id: str, kwargs: dict[str, Any]) -> int:
    """Returns how many pictures an observation customarily is made of: 4 for Atari, unless EnvPool stacks
    them."""
    if not has_task(env_id) or "stack_num" in kwargs:
        return 1
    return 4 if _specs().get(env_id) == ATARI else 1


def load_qt() -> None:
    """Loads Qt, which Procgen draws with, from the package PyQt5-Qt5 where the system has none.

    Without either, EnvPool says what is missing when a game is made.

    Raises:
        UsageError: the package is there, but a library of the system that it needs is not.
    """
    try:
        ctypes.CDLL(QT_LIBRARIES[-1])
        return
    except OSError:
        spec = importlib.util.find_spec("PyQt5")
    for folder in () if spec is None else spec.submodule_search_locations or ():
        for name in QT_LIBRARIES:
            path = Path(folder) / "Qt5" / "lib" / name
            try:
                if path.exists():
                    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
            except OSError as error:
                raise UsageError(
                    f"Procgen draws with Qt, which lacks a library of the system ({error}): "
                    "install libqt5gui5, or what is named there"
                ) from error


@cache
def _specs() -> dict[str, str]:
    """EnvPool's ids, each with the module that has it."""
    from envpool.registration import registry

    return {env_id: spec[0] for env_id, spec in registry.specs.items()}


@cache
def _games() -> dict[str, dict[str, str]]:
    """Procgen's games: distribution modes and the ids that stand for them."""
    games: dict[str, dict[str, str]] = {}
    for env_id, family in _specs().items():
        if family == PROCGEN:  # such as CoinrunEasy-v0
            stem = env_id.removesuffix("-v0")
            last = max(i for i, letter in enumerate(stem) if letter.isupper())
            games.setdefault(stem[:last].lower(), {})[stem[last:].lower()] = env_id
    return games


def _game(env_id: str) -> str | None:
    name = env_id.removeprefix("procgen-").removesuffix("-v0") if env_id.startswith("procgen-") else env_id
    return name if name in _games() else None


def _pictured(env_id: str) -> str | None:
    """Returns the id of the game whose memory `env_id` observes."""
    if not env_id.endswith("-ram-v5"):
        return None
    picture = env_id.replace("-ram-v5", "-v5")
    return picture if _specs().get(picture) == ATARI else None
