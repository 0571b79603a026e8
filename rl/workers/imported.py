"""The modules that other processes must import before they build a run of a caller of `rl.train`. Nothing
here imports Ray."""

from __future__ import annotations

from typing import Any

import gymnasium

from rl.agents.algos.act_select.registry import registry as act_selects
from rl.agents.algos.grad_comp.registry import registry as grad_comps
from rl.agents.algos.registry import registry as algos
from rl.memory.registry import registry as memories
from rl.models.registry import registry as models

NOT_CALLERS = ("", "rl", "gymnasium")  # packages that register their own wherever they are


def registering_modules(hparams: Any) -> tuple[str, ...]:
    """Returns the modules outside this package that define the class of hparams, or register parts that the
    hparams name. Importing them registers the parts."""
    named = (
        (algos, hparams.algo),
        (models, hparams.model.name),
        (memories, hparams.memory_name),
        (act_selects, hparams.act_select_name),
        (grad_comps, hparams.grad_comp),
    )
    found = [type(hparams).__module__]
    found += [registry.entry(name).module for registry, name in named if name in registry]
    return _callers(found)


def callers_modules(hparams: Any) -> tuple[str, ...]:
    """Returns `registering_modules`, followed by the module outside this package that defines the
    environment."""
    spec = gymnasium.registry.get(hparams.env or "")
    maker = "" if spec is None else spec.entry_point
    made = maker.partition(":")[0] if isinstance(maker, str) else getattr(maker, "__module__", "")
    return _callers([*registering_modules(hparams), made])


def _callers(found: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for each in found if each.partition(".")[0] not in NOT_CALLERS))
