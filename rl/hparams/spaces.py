"""What a search tries: for each hyperparameter a range or a list, declared in the classes of hparams as
`searched`, and by `--space`.

    lr=log:1e-5:1e-2          as many in each factor of ten
    clip_range=0.1:0.4        between two numbers; whole ones where the hyperparameter is whole
    gamma=[0.95,0.99]         one of a list
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from rl.errors import UsageError
from rl.hparams.accepted import is_whole
from rl.hparams.hparams import Checked, HParams, unknown_hparam
from rl.hparams.overrides import parse_overrides, value_text
from rl.report.runs import NOT_LEARNING

# What every class searches over; a class's own `searched` goes before, an empty text leaves one out.
COMMON = {
    "lr": "log:1e-5:1e-2",
    "lr_schedule": "[constant,linear]",
    "gamma": "[0.9,0.95,0.98,0.99,0.995,0.999]",
    "model.hidden": "[[64,64],[128,128],[256,256]]",
    "model.activation": "[tanh,relu]",
}
# What is measured, and how: returns of trials that differ in these say nothing of which one learned better.
MEASURED = {
    "algo",  # whose hyperparameters the space is of
    "env",
    "env_kwargs",  # train_env_kwargs and reward_augmentation may be searched: evaluations are without them
    "env_wrappers",
    "max_episode_steps",
    "data",
    "start_from",
    "start_which",
    "eval_policy",
    "train_steps",
}
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
_RANGE = re.compile(rf"(log:)?({_NUMBER}):({_NUMBER})", re.IGNORECASE)


class Range(NamedTuple):
    """Numbers from `low` to `high`, both included."""

    low: float
    high: float
    log: bool  # as many in each factor of ten
    whole: bool  # integers alone

    def text(self) -> str:
        """Returns it as `--space` takes it."""
        ends = (str(int(end)) if self.whole else f"{end:g}" for end in (self.low, self.high))
        return f"{'log:' if self.log else ''}{':'.join(ends)}"


class Choice(NamedTuple):
    """One of a few values."""

    options: tuple[str, ...]  # as `--hparam_override` takes them

    def text(self) -> str:
        """Returns it as `--space` takes it."""
        return f"[{','.join(self.options)}]"


Space = dict[str, Range | Choice]  # by dotted name


def searched(kind: type[HParams]) -> dict[str, str]:
    """Returns what a class of hparams declares, dotted name -> text, with what its bases do."""
    found = dict(COMMON)
    for each in reversed(kind.__mro__):
        found |= vars(each).get("searched", {})
    return {name: text for name, text in found.items() if text}


def space_of(hparams: HParams, changes: str = "", fixed: Mapping[str, Any] | None = None) -> Space:
    """Returns what is searched over for an algorithm.

    Args:
        hparams: of the set that the search begins from.
        changes: the text of `--space`, which replaces and adds.
        fixed: what the user has decided, which is not searched.

    Raises:
        UsageError: unknown names, values that the hyperparameter does not take, ranges that are none,
            hyperparameters that change what is measured or that change nothing that is learned.
    """
    given = _parsed(changes)
    for name in given.keys() & (fixed or {}).keys():
        raise UsageError(f"--space and --hparam_override both give {name}: take one of them")
    declared = parse_overrides(",".join(f"{name}={text}" for name, text in searched(type(hparams)).items()))
    asked = {**declared, **given}
    space = {name: _read(hparams, name, value) for name, value in asked.items() if name not in (fixed or {})}
    if not space:
        raise UsageError("nothing is left to search: give --space, or leave out a --hparam_override")
    return space


def _parsed(changes: str) -> dict[str, Any]:
    try:
        return parse_overrides(changes)
    except UsageError as error:
        raise UsageError(str(error).replace("--hparam_override", "--space")) from error


def _read(hparams: HParams, name: str, value: Any) -> Range | Choice:
    """Returns what a value says is searched; raises UsageError unless the hyperparameter takes all of it."""
    kind, field = _field(type(hparams), name)
    if name in MEASURED:
        raise UsageError(
            f"--space {name}: it changes what is measured, trials that differ in it cannot be compared: give "
            "one value by --hparam_override"
        )
    if name in NOT_LEARNING:
        raise UsageError(f"--space {name}: it does not change what is learned: leave it out")
    if isinstance(value, list) and value:
        for each in value:
            hparams.thawed().assign({name: each})
        return Choice(tuple(map(value_text, value)))
    match = _RANGE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise UsageError(
            f"--space {name}={value_text(value)}: needs LOW:HIGH, log:LOW:HIGH or a list such as [1,2,4]"
        )
    low, high, log, whole = float(match[2]), float(match[3]), bool(match[1]), is_whole(kind, field)
    for end in (low, high):
        hparams.thawed().assign({name: int(end) if whole and end.is_integer() else end})
    if low >= high or (log and low <= 0.0) or not math.isfinite(high):
        raise UsageError(f"--space {name}={value}: needs LOW < HIGH{', LOW > 0' if log else ''}")
    return Range(low, high, log, whole)


def _field(kind: type[Checked], name: str) -> tuple[type[Checked], str]:
    """Returns the class and the field that a dotted name stands for."""
    outer, dot, rest = name.partition(".")
    field = kind.model_fields.get(outer)
    nested = field.annotation if field is not None else None
    if dot and isinstance(nested, type) and issubclass(nested, Checked):
        return _field(nested, rest)
    if dot or field is None:
        raise unknown_hparam(kind.prefix + name, kind.keys())
    return kind, outer
