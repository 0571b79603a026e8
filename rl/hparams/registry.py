"""Named hyperparameter sets: functions without parameters, each returning a fresh `HParams`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from rl.hparams.hparams import HParams
from rl.registry import Registry

AnyHParams = TypeVar("AnyHParams", bound=HParams)

registry = Registry("hparams", "rl.hparams", parameters=())
get_hparams = registry.get


def register(make: Callable[[], AnyHParams]) -> Callable[..., AnyHParams]:
    """Puts a set into the registry, as its decorator, and lets others be made of it by calling it with what
    differs.

    `ppo_pong(lr=1e-3, model=dict(hidden=(256,)))` is `ppo_pong()` with these values assigned; mappings of
    values that several sets share come before the keywords, as in `HParams.of`.

    Raises:
        TypeError: the function cannot be called without arguments.
        UsageError: the name is taken.
    """
    registry.register(make)
    if inspect.signature(make).parameters:  # a set that takes arguments of its own keeps them
        return make

    @functools.wraps(make)
    def varied(*layers: Mapping[str, Any], **values: Any) -> AnyHParams:
        hparams = make()
        for layer in (*layers, values):
            hparams.assign(layer)
        return hparams

    return varied
