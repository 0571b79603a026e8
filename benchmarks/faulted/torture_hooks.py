"""Does a fault to the run that it is imported into: a user module (`--user_modules`) of the fault campaign.

What and when is JSON in the variable RL_TORTURE; without it the module does nothing, so the same command
without that variable is an undisturbed one. The moment is a phase of the thread that trains, as it tells
`rl.heartbeat`: the nth one whose name has a text in it, and some time after its beginning.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rl import heartbeat

PLAN: dict[str, Any] = json.loads(os.environ.pop("RL_TORTURE", "null")) or {}
_seen = 0
_poison: Any = None  # variable that is added to losses, NaN while it lasts


def strike() -> None:
    """Does it, once in the life of a run: processes that take this one's place find the file."""
    try:
        os.close(os.open(PLAN["struck"], os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return
    for name, value in PLAN["do"].items():
        ACTIONS[name](value)


def _signal(number: int) -> None:
    os.kill(os.getpid(), number)


def _again(seconds: float) -> None:
    """The same signal once more, after some time."""
    timer = threading.Timer(seconds, _signal, [PLAN["do"]["signal"]])
    timer.daemon = True
    timer.start()


def _limit(what: list[Any]) -> None:
    """A limit of the system, from now on: its name and value; "more": beyond what is used now."""
    name, value = what[0], int(what[1])
    which = getattr(resource, f"RLIMIT_{name}")
    if name == "NOFILE":
        value += len(os.listdir("/proc/self/fd"))
    if name == "AS":
        value += int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(which, (value, resource.getrlimit(which)[1]))


def _clock(seconds: float) -> None:
    """The clock of the day is set by so many seconds."""
    now = time.time
    time.time = lambda: now() + seconds


def _fill(what: list[Any]) -> None:
    """Fills a disk with a file until so many bytes are free."""
    path, leave = what
    folder = os.path.dirname(path)
    with open(path, "wb", buffering=0) as file:
        while True:
            found = os.statvfs(folder)
            free = found.f_bavail * found.f_frsize - leave
            if free <= 0:
                return
            try:
                file.write(bytes(min(free, 1 << 20)))
            except OSError:
                return


def _unlink(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _command(words: list[str]) -> None:
    """Runs a program."""
    import subprocess

    subprocess.run(words, check=True)


def _nan(what: list[Any]) -> None:
    """Puts NaN or infinity into variables of the run whose names have a text in them: into all of them, or
    into their first number alone."""
    import numpy as np

    text, value, everywhere = what
    found = [(name, each) for name, each in _trainer().runner.variables.items() if text in name]
    changed = 0
    for _, variable in found:
        array = np.array(variable.numpy())
        if array.dtype.kind != "f" or not array.size:
            continue
        if everywhere:
            array[...] = float(value)
        else:
            array.reshape(-1)[0] = float(value)
        variable.assign(array)
        changed += 1
    if not changed:
        os.unlink(PLAN["struck"])  # not done


def _loss(what: list[Any]) -> None:
    """Adds NaN to all losses until so many further phases have begun."""
    _poison.assign(float(what[0]))
    PLAN["heal_at"] = _seen + int(what[1])


ACTIONS = {
    "signal": _signal,
    "again": _again,
    "limit": _limit,
    "clock": _clock,
    "fill": _fill,
    "unlink": _unlink,
    "command": _command,
    "nan": _nan,
    "loss": _loss,
}


def _caller(name: str) -> Any:
    """The frame of the function of that name which has called this, None where none has."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != name:
        frame = frame.f_back  # type: ignore[assignment]
    return frame


def _trainer() -> Any:
    frame = _caller("train")
    while frame is not None:
        found = frame.f_locals.get("self")
        if type(found).__name__ == "Trainer":
            return found
        frame = frame.f_back
    raise RuntimeError("there is no trainer here")


def _poisoned() -> None:
    """Has all losses take `_poison` in: before they are compiled."""
    global _poison
    import tensorflow as tf

    agent = _trainer().agent
    whole = agent.loss
    _poison = tf.Variable(0.0, trainable=False)

    def loss(*words: Any) -> Any:
        first, *rest = whole(*words)
        return (first + _poison, *rest)

    agent.loss = loss


def _passes(what: str) -> None:
    """Is called with each phase."""
    global _seen
    if threading.current_thread() is not threading.main_thread():
        return
    if "loss" in PLAN["do"] and _poison is None and "compiled" in what:
        _poisoned()
    if PLAN["at"] not in what or ("within" in PLAN and _caller(PLAN["within"]) is None):
        return
    _seen += 1
    if _seen == PLAN.get("heal_at"):
        _poison.assign(0.0)
    if _seen != PLAN["nth"]:
        return
    if PLAN.get("after"):
        timer = threading.Timer(PLAN["after"], strike)
        timer.daemon = True
        timer.start()
    else:
        strike()


class _Told(heartbeat._Main):
    """What the main thread does, told to this module as well."""

    @property
    def what(self) -> str:  # type: ignore[override]
        return str(self.__dict__["what"])

    @what.setter
    def what(self, text: str) -> None:
        self.__dict__["what"] = text
        _passes(text)


if PLAN.get("on_start"):
    strike()
elif PLAN:
    heartbeat._main.__class__ = _Told
