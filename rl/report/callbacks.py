"""Callbacks: the caller's code during a training run (`rl.train(..., callbacks=...)`)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl.errors import UsageError, nearest

if TYPE_CHECKING:
    from rl.policy import Policy
    from rl.runners.evaluate import Evaluation


class Callbacks:
    """Base of callbacks; a subclass overrides the methods that it needs.

    They are called in the training process, between two calls of the compiled loop. If one returns True, the
    training ends after the current window, with a checkpoint, as if all steps were made. An error in one ends
    the run with that error, after a checkpoint. `rl.train` takes one object, or several in a list, which are
    called in its order; other methods of them may not begin with `on_`, since they would never be called.
    """

    def on_start(self, step: int, policy: Policy) -> bool | None:
        """Is called before the first step, and where a resumed run goes on, with the environment steps so
        far. Keep `policy` to call it in the other methods: it then acts as the agent has learned to by that
        time."""

    def on_evaluation(self, step: int, evaluation: Evaluation) -> bool | None:
        """Is called after an evaluation, before `on_row`, with its episodes; `step`: environment steps so
        far."""

    def on_row(self, step: int, row: dict[str, float]) -> bool | None:
        """Is called after each `log_period` environment steps with a row of metrics, before it is written:
        numbers that are put into `row`, by names such as "custom/error", are written as the others are."""

    def on_checkpoint(self, step: int, folder: Path) -> bool | None:
        """Is called with the folder of a complete checkpoint; later checkpoints replace it in time."""


def several(given: Any) -> tuple[Callbacks, ...]:
    """Returns the callbacks that a caller gave: one, several or None.

    Raises:
        UsageError: it is something else, or one has a method that would never be called, or not with what it
            is told.
    """
    found = (given,) if isinstance(given, Callbacks) else given or ()
    if not isinstance(found, list | tuple) or not all(isinstance(each, Callbacks) for each in found):
        raise UsageError(
            f"callbacks={given!r}: needs an object of a class derived from rl.Callbacks, or a list"
        )
    for each in found:
        _check_methods(each)
    return tuple(found)


def _check_methods(callbacks: Callbacks) -> None:
    """Raises UsageError for a misspelt method, or another library's, and for one of other arguments."""
    known = {name for name in vars(Callbacks) if name.startswith("on_")}
    kind = type(callbacks).__name__
    for name in dir(type(callbacks)):
        if name.lstrip("_").startswith("on_") and name not in known:
            raise UsageError(f"callbacks: {kind}.{name} would never be called: {nearest(name, known)}")
    for name in sorted(known):
        wanted = inspect.signature(getattr(Callbacks, name))
        try:
            inspect.signature(getattr(callbacks, name)).bind(0, None)
        except TypeError as error:
            names = ", ".join(wanted.parameters)
            raise UsageError(f"callbacks: {kind}.{name} is called with ({names}): {error}") from error


class Calls:
    """Calls the callbacks of a run, one after the other.

    Attributes:
        enough: whether one of them has asked for the end of the training.

    Args:
        callbacks: what is called.
        policy_of: makes the policy that they are shown from the agent that is trained.
    """

    def __init__(self, callbacks: Sequence[Callbacks] = (), policy_of: Callable[[Any], Policy] | None = None):
        self._callbacks, self._policy_of, self.enough = callbacks, policy_of, False
        self._policy: Policy | None = None

    def start(self, step: int, agent: Any) -> None:
        """Tells that the training of an agent begins or goes on."""
        if self._callbacks and self._policy_of is not None:
            self._policy = self._policy_of(agent)
        self._each("on_start", step, self._policy)

    def evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Tells of an evaluation."""
        self._each("on_evaluation", step, evaluation)

    def row(self, step: int, row: dict[str, float]) -> None:
        """Tells of a row of metrics, which they may add numbers to. Raises TypeError where one puts anything
        else in."""
        self._each("on_row", step, row)
        for name, value in row.items() if self._callbacks else ():
            try:
                float(value)
            except (TypeError, ValueError) as error:
                raise TypeError(f"a callback put {value!r} into a row as {name!r}: put a number") from error

    def checkpoint(self, step: int, folder: Path) -> None:
        """Tells of a complete checkpoint."""
        self._each("on_checkpoint", step, folder)

    def _each(self, method: str, step: int, told: Any) -> None:
        if self._policy is not None:
            self._policy.refresh()
        for each in self._callbacks:
            self.enough |= getattr(each, method)(step, told) is True
