"""Named hyperparameter sets: functions without parameters, each returning a fresh `HParams`."""

from __future__ import annotations

from rl.registry import Registry

registry = Registry("hparams", "rl.hparams", parameters=())
register = registry.register
get_hparams = registry.get
