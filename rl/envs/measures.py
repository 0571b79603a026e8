"""What an environment says of an episode in the `info` of its last step: whether it succeeded, and numbers.

Gymnasium's environments say it, and in-graph ones that have an `info` (`rl.envs.host.HostEnv.tell_ends`).
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

SUCCESS = "success_rate"  # what the mean over episodes is called
SUCCESS_KEYS = ("is_success", "success")  # the usual name in infos, and another one; the first number counts


def measures_of(info: Any, keys: Sequence[str]) -> dict[str, float]:
    """Returns the numbers of an episode's last `info`: whether it succeeded, as `SUCCESS`, and those under
    `keys`. What is missing there, or no finite number, is left out."""
    if not isinstance(info, Mapping):  # nothing else needs it, so that nobody has checked it
        return {}
    told = [info.get(key) for key in SUCCESS_KEYS]
    success = next((each for each in told if number_of(each) is not None), None)
    found = {SUCCESS: number_of(success)} | {key: number_of(info.get(key)) for key in keys}
    return {name: x for name, x in found.items() if x is not None}


def number_of(value: Any) -> float | None:
    """Returns a bool, an integer or a float, of Python or of NumPy; None for all else, and for NaN and
    infinity."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, numbers.Real | np.bool_):
        return None
    found = float(value)
    return found if math.isfinite(found) else None


def shown(row: Mapping[str, float], keys: Sequence[str]) -> dict[str, float]:
    """Returns the measures in a row of metrics, by what the terminal calls them."""
    places = [(f"{whose} {name}", f"{tag}/{name}") for whose, tag in _TAGS for name in (SUCCESS, *keys)]
    return {title: row[column] for title, column in places if column in row}


class EpisodeMeasures:
    """Means of measures over the training episodes of a window.

    Args:
        keys: of infos, as `measures_of` takes them.

    Attributes:
        sums: the sum of each, and how many episodes had it.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self.sums: dict[str, tuple[float, int]] = {}

    def add(self, env: int, info: Any) -> None:
        """Takes the last info of an episode of environment number `env`."""
        for name, x in measures_of(info, self._keys).items():
            total, count = self.sums.get(name, (0.0, 0))
            self.sums[name] = total + x, count + 1

    def row(self) -> dict[str, float]:
        """Returns the means, as they are logged."""
        return {f"episode/{name}": total / count for name, (total, count) in self.sums.items()}


_TAGS = (("train", "episode"), ("eval", "eval"))
