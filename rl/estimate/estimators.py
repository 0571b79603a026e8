"""The estimators by name, and their estimates for a data set (formulas: `rl.ops.estimation`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rl.data.dataset import Dataset
from rl.errors import UsageError, nearest
from rl.estimate.fqe import Values
from rl.ops import estimation

TITLES = {
    "is": "importance sampling",
    "wis": "weighted importance sampling",
    "pdis": "per-decision importance sampling",
    "wpdis": "weighted per-decision importance sampling",
    "dm": "direct method (fitted Q evaluation)",
    "dr": "doubly robust",
    "wdr": "weighted doubly robust",
}
BY_RATIOS = ("is", "wis", "pdis", "wpdis", "dr", "wdr")  # those that need importance ratios
RATIO = "episode_ratio"
BY_VALUES = ("dm", "dr", "wdr")  # those that need the policy's values


class Estimated(NamedTuple):
    """An estimate of the mean discounted return of an episode."""

    estimate: float  # NaN if the policy gives all episodes of the data probability 0
    low: float  # of the interval
    high: float
    effective_sample_size: float  # episodes


def chosen(names: str | None) -> list[str]:
    """Returns the estimators of a text `is,dr`, all where there is none; "fqe" is the direct method. Raises
    UsageError."""
    if names is None:
        return list(TITLES)
    found = ["dm" if name.strip() == "fqe" else name.strip() for name in names.split(",")]
    for name in found:
        if name not in TITLES:
            raise UsageError(f"unknown estimator {name!r}: {nearest(name, TITLES)}")
    return list(dict.fromkeys(found))


def estimates(
    names: Sequence[str],
    data: Dataset,
    gamma: float,
    log_ratio: np.ndarray | None,
    values: Values | None,
    resamples: int = 1000,
    seed: int = 0,
    coverage: float = 0.95,
) -> dict[str, Estimated]:
    """Returns the estimate of each estimator, under "data" the mean return of the data themselves, and under
    `RATIO`, if there are ratios, the mean importance ratio of an episode.

    Args:
        log_ratio: [N], log pi(a | s) - log b(a | s) of the data's steps, for those `BY_RATIOS`.
        values: the policy's, for those `BY_VALUES`.
        resamples: of the bootstrap over episodes that gives the interval.
        seed: of the resamples.
        coverage: of the interval.
    """
    lengths = data.lengths
    reward = estimation.padded(data.reward, lengths)  # [E, T]
    sums = {"data": estimation.mean(estimation.discounted(reward, gamma))}
    sizes, size = {"data": float(len(lengths))}, 0.0
    if log_ratio is not None:
        ratios = estimation.padded(log_ratio, lengths)
        size = float(estimation.effective_sample_size(ratios))
        sums |= {
            "is": estimation.importance_sampling(ratios, reward, gamma),
            "wis": estimation.weighted_importance_sampling(ratios, reward, gamma),
            "pdis": estimation.per_decision(ratios, reward, gamma),
            "wpdis": estimation.weighted_per_decision(ratios, reward, gamma),
        }
    if values is not None:
        q = estimation.padded(values.q, lengths)
        value = estimation.padded(values.value, lengths + 1)  # [E, T + 1]
        over = data.terminated[data.starts + lengths - 1]
        value[over, lengths[over]] = 0.0  # nothing follows
        sums["dm"], sizes["dm"] = estimation.direct(value), float(len(lengths))
        if log_ratio is not None:
            sums["dr"] = estimation.doubly_robust(ratios, reward, q, value, gamma)
            sums["wdr"] = estimation.weighted_doubly_robust(ratios, reward, q, value, gamma)
    if "is" in sums:
        sums[RATIO], sizes[RATIO] = estimation.episode_ratio(ratios), size
    counts = estimation.bootstrap_counts(len(lengths), resamples, seed)
    found = {}
    for name in ("data", *names, *({RATIO} & sums.keys())):
        low, high = estimation.bootstrap_interval(sums[name], counts, coverage)
        numbers = float(estimation.estimate(sums[name])), float(low), float(high)
        found[name] = Estimated(*numbers, sizes.get(name, size))
    return found
