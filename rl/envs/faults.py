"""Environments that outlive their mistakes: a step that raises, hangs, or returns NaN or a wrong shape.

`Watched` stands around the host environments of a process. Where one fails, that is told in one line, all are
made anew, and training goes on with fresh episodes: those under way count as cut. After `env_restarts` times
the run ends, with a checkpoint. Nothing here imports TensorFlow: workers use it too.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import gymnasium
import numpy as np
import optree
from gymnasium import spaces

from rl.envs.agents import unpaid
from rl.envs.host import HostEnv, HostStep, HostWrapper, Told
from rl.errors import EnvironmentFailed, UsageError, raised_at
from rl.heartbeat import end_at_once
from rl.hparams.hparams import HParams
from rl.types import Nest

log = logging.getLogger("rl")
FIRST = 2  # times that environments of which no step was well yet are made anew because of a step or of NaN
LOOK = 1.0  # seconds between two looks at what may hang, at most
Played = TypeVar("Played")


class Redo(Exception):
    """Environments failed and were made anew: what was being played is to be played again."""


def watched(make: Callable[[], Any], hparams: HParams, redo: bool = False) -> Any:
    """Returns what `make` gives, watched as `hparams` say; in-graph environments as they are.

    redo: see `Watched`.
    """
    env = make()
    if env.backend == "graph":
        return env
    return Watched(env, make, hparams.env, hparams.env_timeout, hparams.env_restarts, redo)


def played(play: Callable[[int], Played], seed: int) -> Played:
    """Returns what `play` does, which is called with a seed, and again after each `Redo`: once with the same
    one, then with others, since what fails by its seed would do so each time."""
    now, failed = seed, 0
    while True:
        try:
            return play(now)
        except Redo:
            failed += 1
            if failed > 1:
                now = int(np.random.SeedSequence((seed, failed)).generate_state(1, np.uint64)[0])
                log.warning("the same episodes failed again: others are played")


class Watched(HostWrapper):
    """A `HostEnv` that is made anew where it fails.

    The step that failed returns what was seen before it with reward 0, and says that all episodes were
    truncated; the next step is that of their autoreset.

    Args:
        env: the environments.
        make: gives others like them, as often as it is called.
        name: of the environment, for what is told.
        timeout: seconds after which a reset or a step of them all hangs.
        restarts: how often they may be made anew.
        redo: for evaluations, whose episodes must not be cut: a step that fails raises `Redo`, once they have
            been made anew.

    Attributes:
        rebuilt: how often they were made anew.
        told: a line for each time, until its reader clears them.

    Raises:
        UsageError: by the first reset or step, of an environment that is none of Gymnasium's; by a first step
            that fails, or a first observation of NaN, each time they have been made anew.
        EnvironmentFailed: by a reset or step that failed after `restarts` others.
    """

    def __init__(
        self,
        env: HostEnv,
        make: Callable[[], HostEnv],
        name: str,
        timeout: float,
        restarts: int,
        redo: bool = False,
    ):
        super().__init__(env)
        self._make, self._name, self._restarts, self._redo = make, name, restarts, redo
        self._limit = _Limit(timeout)
        space = env.observation_space
        self._plain = isinstance(space, spaces.Box) and space.dtype.kind == "f"
        self.rebuilt, self.told = 0, list[str]()
        self._steps = 0  # of the environments that there are now
        self._worked = False  # whether any step of theirs, or of those before them, was well
        self._seed = 0
        self._seen: Nest = None  # what the last step returned
        self._ends = self._never()  # terminated, truncated of the last step
        self._fresh: Nest | None = None  # what the next step is to return: new episodes
        self._listener: Told | None = None  # who is told of ends

    def reset(self, seed: int) -> Nest:
        """Starts all episodes anew; returns observation [B, ...]. Environments that fail or hang are made
        anew and reset again. Raises as the class says."""
        self._seed, self._fresh = seed, None
        while True:
            try:
                with self._limit:
                    observation = super().reset(seed)
                self._refuse_unfit(observation, np.zeros(0, np.float32))
                break
            except _CAUGHT as error:
                self._rebuild(error, "reset")
        self._seen, self._ends = observation, self._never()
        return observation

    def step(self, action: Nest) -> HostStep:
        """Steps all environments once, as `HostEnv.step` says. Where that fails, all are made anew, and all
        episodes are told to be truncated. Raises as the class says, and `Redo` where `redo`."""
        if self._fresh is not None:
            return self._begun(self._fresh)
        try:
            with self._limit:
                result = self.env.step(action)
            observation, reward, terminated, truncated = result
            self._refuse_unfit(observation, reward)
        except _CAUGHT as error:
            return self._cut(error)
        self.life_lost = self.env.life_lost
        self._steps += 1
        self._worked = True
        self._seen, self._ends = observation, (terminated, truncated)
        return result

    def tell_ends(self, told: Told) -> None:
        """Calls `told` from now on where an episode ends, as `HostEnv.tell_ends` says; environments that are
        made anew do so as well."""
        self._listener = told
        super().tell_ends(told)

    def close(self) -> None:
        """Closes the environments."""
        self._limit.close()
        super().close()

    def _cut(self, error: BaseException) -> HostStep:
        """Makes the environments anew, and returns what stands for the step that failed."""
        self._rebuild(error, f"step {self._steps + 1:,}")
        if self._redo:
            raise Redo from error
        before, ended = self._seen, np.logical_or(*self._ends)
        seed = np.random.SeedSequence((self._seed, self.rebuilt)).generate_state(1, np.uint64)
        fresh = self.reset(int(seed[0]))
        # What had ended shows its new episode now, as its autoreset would have, and at the next step again.
        over = np.repeat(ended.reshape(-1, self.agents).all(1), self.agents)
        seen = optree.tree_map(lambda old, new: _chosen(over, new, old), before, fresh)
        self._seen = unpaid(self.observation_space, seen)
        self._fresh = fresh
        if self.life_lost is not None:
            self.life_lost = np.zeros(self.num_envs, bool)
        gone = ended & ~over  # agents of episodes that others were playing on
        self._ends = gone, ~over & ~gone
        return self._seen, np.zeros(self.num_envs, np.float32), *self._ends

    def _begun(self, fresh: Nest) -> HostStep:
        """Returns the step of the autoreset that follows."""
        self._seen, self._ends, self._fresh = fresh, self._never(), None
        return fresh, np.zeros(self.num_envs, np.float32), *self._ends

    def _never(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)

    def _rebuild(self, error: BaseException, doing: str) -> None:
        """Makes the environments anew after an error, or raises."""
        if isinstance(error, UsageError | ImportError | gymnasium.error.Error) and not self._worked:
            raise error  # they say what to do
        at = error.row // self.agents if isinstance(error, _Unfit) else self.at
        which = "" if at is None else f"environment {at} of {self.num_envs // self.agents}, "
        line = f"{self._name}: {which}{doing}: {self._in_words(error)}"
        # A reset that raises may wait for a simulator; one that returns NaN each time will not get better.
        mistaken = (doing != "reset" or isinstance(error, _Unfit)) and not isinstance(error, _Hangs)
        if mistaken and not self._worked and self.rebuilt >= FIRST:
            raise UsageError(f"{line}; no step was well yet, and making it anew does not help") from error
        if self.rebuilt >= self._restarts:
            before = f"; made anew {self.rebuilt} times before (env_restarts)" if self.rebuilt else ""
            raise EnvironmentFailed(f"{line}{before}") from error
        self.rebuilt += 1
        self.told.append(f"{line}; all are made anew ({self.rebuilt} of {self._restarts} times)")
        log.warning("%s", self.told[-1])
        with contextlib.suppress(*_CAUGHT), self._limit:
            self.env.close()
        try:
            with self._limit:
                self.env = self._make()
        except _CAUGHT as another:
            raise EnvironmentFailed(f"{line}; making it anew: {self._in_words(another)}") from another
        if self._listener is not None:
            self.env.tell_ends(self._listener)
        self._steps = 0

    def _in_words(self, error: BaseException) -> str:
        if isinstance(error, _Hangs):
            return f"it hangs for more than {self._limit.timeout:g} s (env_timeout)"
        text = " ".join(str(error).split())
        if isinstance(error, UsageError | _Unfit):
            return text
        frame = raised_at(error)
        return f"{type(error).__name__}: {text} ({Path(frame.filename).name}:{frame.lineno})"

    def _refuse_unfit(self, observation: Nest, reward: np.ndarray) -> None:
        """Raises `_Unfit` where a number of an observation [B, ...] or of a reward [B] is NaN or infinite."""
        # A sum of squares takes a third of the time that `isfinite` of all takes; it may overflow.
        if self._plain and math.isfinite(np.vdot(observation, observation) + np.vdot(reward, reward)):
            return  # nearly every step
        for leaf in optree.tree_leaves(observation):
            self._refuse_not_finite("observation", leaf)
        self._refuse_not_finite("reward", reward)

    def _refuse_not_finite(self, what: str, array: np.ndarray) -> None:
        if array.dtype.kind != "f" or math.isfinite(np.vdot(array, array)):
            return
        wrong = ~np.isfinite(array.reshape(self.num_envs, -1)).all(1)
        if wrong.any():
            raise _Unfit(f"the {what} is NaN or infinite", int(wrong.argmax()))


class _Unfit(Exception):
    """A step returned NaN or infinity.

    Args:
        text: in words.
        row: of the environments' rows, the first one that is concerned.
    """

    def __init__(self, text: str, row: int):
        super().__init__(text)
        self.row = row


class _Hangs(BaseException):
    """Is raised within what hangs."""


# What an environment may raise; no `except Exception` of its own catches `_Hangs`.
_CAUGHT = (Exception, SystemExit, _Hangs)


class _Limit:
    """Context manager in which what hangs is interrupted: a thread looks now and then, and sends a signal on
    which the main thread raises `_Hangs`. What has not come back to Python after the same time again cannot
    be interrupted: the process then ends with exit code 75.

    Looks are counted, not seconds: where the whole process was stopped, nothing has hung.
    """

    def __init__(self, timeout: float):
        self.timeout = timeout
        self._number, self._inside, self._asked = 0, False, 0  # of uses; whether one is; the one to be ended
        self._seen, self._waited = 0, 0.0
        _limits.add(self)
        if threading.current_thread() is threading.main_thread():  # elsewhere no handler can be installed
            _install_handler()
        _start_looking()

    def __enter__(self) -> None:
        self._number += 1
        self._inside = True

    def __exit__(self, *_: object) -> None:
        self._inside = False

    def close(self) -> None:
        """Ends the thread's looks at it; call it when it is used no more."""
        _limits.discard(self)

    @property
    def hangs(self) -> bool:
        """Whether what is in it is to end."""
        return self._inside and self._asked == self._number

    def look(self, seconds: float) -> None:
        """Interrupts what has hung for `timeout`, and ends the process where that is impossible. The thread
        calls it, `seconds` after the last time."""
        number = self._number
        if not self._inside or number != self._seen:
            self._seen, self._waited = number, 0.0
            return
        self._waited += seconds
        if self._waited >= 2.0 * self.timeout:
            end_at_once(
                f"an environment hangs for {self._waited:.0f} s and cannot be interrupted (env_timeout); the "
                "same command goes on"
            )
        if self._waited >= self.timeout and self._asked != number:
            self._asked = number
            if signal.getsignal(signal.SIGALRM) is _raise_in_what_hangs:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)


_limits: weakref.WeakSet[_Limit] = weakref.WeakSet()
_looking: list[threading.Thread] = []  # the thread, once there is one
_others: list[Any] = []  # handlers of SIGALRM that were there before


def _start_looking() -> None:
    if not _looking:
        _looking.append(threading.Thread(target=_look_after_all, name="env_timeout", daemon=True))
        _looking[0].start()


def _look_after_all() -> None:
    while True:
        limits = list(_limits)
        seconds = min([LOOK, *(each.timeout / 4.0 for each in limits)])
        del limits
        time.sleep(seconds)
        for each in list(_limits):
            each.look(seconds)


def _install_handler() -> None:
    handler = signal.getsignal(signal.SIGALRM)
    if handler is not _raise_in_what_hangs:
        _others.append(handler)
        signal.signal(signal.SIGALRM, _raise_in_what_hangs)


def _raise_in_what_hangs(number: int, frame: FrameType | None) -> None:
    if any(each.hangs for each in _limits):
        raise _Hangs
    if callable(_others[-1]):  # it was another one's alarm
        _others[-1](number, frame)


def _chosen(rows: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Returns arrays [B, ...]: `new` where `rows`, bool [B], says so, else `old`."""
    return np.where(rows.reshape(-1, *[1] * (old.ndim - 1)), new, old)
