"""The exceptions that `train.py` knows: a mistake of the person at the terminal, a learner or a machine that
is gone, a remote output that cannot be reached any more, numbers that are none, environments that fail."""

from __future__ import annotations

import contextlib
import difflib
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

# A command; what goes before hyperparameters at a terminal; a flag, with a word that stands for its value.
_FLAG = re.compile(r"((?:python|setup\.sh) [^;)]*)|--hparam_override |--([a-z_]+)(?: ([A-Z]{1,4})\b)?")
_FLAGS_ALONE = ("copies", "copy", "parallel", "training", "render", "test_episodes", "user_modules")
AGAIN = 75  # exit code where the same command goes on from the last checkpoint (EX_TEMPFAIL)


class UsageError(Exception):
    """Bad input: its text is one clear line; `train.py` prints it and exits with code 2."""


class Unavailable(UsageError):
    """A disk or a store that fails now and may not later (full, does not answer): its text is one clear line;
    `train.py` prints it and exits with code 75, after which the same command goes on."""


class LearnerLost(Exception):
    """One of several learners is gone: the run can only go on from its last checkpoint."""


class MachineLost(Exception):
    """A machine of a TPU slice is gone, or never came: all start again, from the last checkpoint."""


class GivenUp(Exception):
    """A run that would come to the same again: a person has to look. The text is one line."""


class NotFinite(GivenUp):
    """Training came to NaN or infinity."""


class EnvironmentFailed(GivenUp):
    """An environment raised, hung or returned NaN, more often than it may."""


class Diverged(NotFinite):
    """Training came to NaN or infinity, and goes back to a checkpoint with lower learning rates.

    Args:
        text: one line.
        back_to: step of that checkpoint.
        rollbacks: how often the run will have gone back then.
        lr_scale: how many times those of the hparams its learning rates will be.
    """

    def __init__(self, text: str, back_to: int, rollbacks: int, lr_scale: float):
        super().__init__(text)
        self.back_to, self.rollbacks, self.lr_scale = back_to, rollbacks, lr_scale


class Stopped(Exception):
    """What was under way was given up, since the program was asked to stop."""


class NotSent(Exception):
    """A run is over, but its last state is on this machine only; the text is one line that says where."""


@contextlib.contextmanager
def in_python() -> Iterator[None]:
    """Has UsageErrors name arguments (`env=ID`), as a Python program gives them, and not flags (`--env ID`).
    Commands that a text names stay as a terminal takes them."""
    try:
        yield
    except UsageError as error:
        error.args = (_FLAG.sub(_argument, str(error)),)
        raise


def _argument(found: re.Match[str]) -> str:
    command, name, value = found.groups()
    if command or name in _FLAGS_ALONE:
        return found[0]
    if name is None:
        return ""
    return f"{name}={value}" if value else name


def one_line(error: BaseException) -> str:
    """Returns the text of an error on one line, or its kind where it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def raised_at(error: BaseException) -> traceback.FrameSummary:
    """Returns the last line of a user's own code on the way to an error, which says more than one within a
    library that it called; the last one of all where there is none."""
    libraries = (*map(sysconfig.get_path, ("stdlib", "purelib", "platlib")), str(Path(__file__).parent), "<")
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if not each.filename.startswith(libraries)]
    return (own or frames)[-1]


def where_raised(error: BaseException) -> str:
    """Returns words for what the code of somebody else raised: its kind, its text, and where in that code."""
    last = raised_at(error)
    text = " ".join([f"{type(error).__name__}:", *str(error).split()])
    return f"{text} ({last.filename}, line {last.lineno})"


def nearest(
    name: str, known: Iterable[str], count: int = 3, elsewhere: Mapping[str, str] | None = None
) -> str:
    """Returns words for an error message: the known names nearest to `name`, or a few of them when none is
    near.

    elsewhere: what other libraries call one of the known names, in lower case; it goes before all likeness.
    """
    names = sorted(known)
    meant = (elsewhere or {}).get(name.lower())
    if meant in names:
        return f"did you mean {meant}?"
    lowered = {each.lower(): each for each in reversed(names)}
    near = difflib.get_close_matches(name.lower(), lowered, n=count, cutoff=0.5)
    if near:
        return "did you mean " + ", ".join(lowered[each] for each in near) + "?"
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"known: {shown}" if names else "none is known"
