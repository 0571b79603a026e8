"""The search for NaN and infinity in a run's state and metrics, once per window of iterations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from rl.parallel.devices import concrete

SHOWN = 3  # names that a message gives, of metrics and of variables


class FiniteCheck:
    """Finds metrics and variables of a run that are not finite.

    Args:
        variables: all state by name; only floating-point variables are checked.
    """

    def __init__(self, variables: Mapping[str, Any]):
        found = {k: each.value if isinstance(each, keras.Variable) else each for k, each in variables.items()}
        self._variables = {name: each for name, each in found.items() if each.dtype.is_floating}
        self._all_finite: Any = None  # compiled at the first look

    def trouble(self, row: Mapping[str, float]) -> str:
        """Names what is not finite among a row's training metrics (`train/`) and the variables; empty if
        nothing is."""
        metrics = [f"{key} is {value}" for key, value in row.items() if key.startswith("train/")
                   and not math.isfinite(value)]  # fmt: skip
        if self._all_finite is None:
            self._all_finite = concrete(self._stacked, [], jit_compile=False)
        finite = self._all_finite().numpy()
        state = [name for name, each in zip(self._variables, finite, strict=True) if not each]
        found = [_some(metrics)] if metrics else []
        return "; ".join([*found, f"not finite: {_some(state)}"] if state else found)

    def _stacked(self) -> tf.Tensor:
        return tf.stack([tf.constant(True), *map(_finite, self._variables.values())])[1:]


def _finite(variable: Any) -> tf.Tensor:
    return tf.reduce_all(tf.math.is_finite(variable))


def _some(words: list[str]) -> str:
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")
