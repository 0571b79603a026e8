"""Statistics of methods from a few runs: interquartile means, probabilities of improvement, performance
profiles, each with a 95 % interval, by the definitions of Agarwal et al. 2021 (https://arxiv.org/abs/2108.13264).

A method's scores are a list of arrays, one array for each task, with one number for each run. Intervals are
stratified percentile bootstraps: runs are resampled within each task. Tests compare the numbers with
rliable's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 10_000
IQM_FROM = 5  # runs; of fewer the bootstrap says little, and a quarter is one run or none
FEW_RUNS = f"Of fewer than {IQM_FROM} runs an interval is little more than their range: too narrow for 95 %."
_BLOCK = 500  # resamples that are computed at once
_NUMBERS = 10_000_000  # that a curve's interval is computed from at once

Scores = Sequence[np.ndarray]  # of each task [..., runs]


class Estimate(NamedTuple):
    """A statistic, and the ends of its 95 % interval; arrays where it is of several numbers."""

    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def text(self, digits: int = 1) -> str:
        """Returns it as tables have it: `3.5 [2.0, 5.1]`."""
        return f"{self.value:.{digits}f} [{self.lower:.{digits}f}, {self.upper:.{digits}f}]"


def interquartile_mean(values: np.ndarray) -> np.ndarray:
    """Returns the mean over the first axis without its lowest and its highest quarter."""
    cut = int(0.25 * len(values))
    return np.sort(values, 0)[cut : len(values) - cut].mean(0)


def statistic(runs: int) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the statistic that is reported for so many runs, a function of [runs, ...]: the interquartile
    mean for 5 runs or more, else the mean."""
    return interquartile_mean if runs >= IQM_FROM else lambda values: np.mean(values, 0)


def interval(values: np.ndarray) -> Estimate:
    """Returns the `statistic` of [runs, ...] and its interval, [...] each. Whole runs are resampled, so this
    works for learning curves as well."""
    values = np.asarray(values, np.float64)
    of = statistic(len(values))
    drawn = np.random.default_rng(0).integers(len(values), size=(len(values), RESAMPLES))
    flat = values.reshape(len(values), -1)
    parts = np.array_split(flat, max(1, drawn.size * flat.shape[1] // _NUMBERS), axis=1)
    ends = [np.percentile(of(part[drawn]), [2.5, 97.5], axis=0) for part in parts]
    lower, upper = np.concatenate(ends, -1).reshape(2, *values.shape[1:])
    return Estimate(of(values), lower, upper)


def aggregate(scores: Scores) -> np.ndarray:
    """Returns the `statistic` over all runs of all tasks together, [...]."""
    together = np.moveaxis(np.concatenate(scores, -1), -1, 0)
    return statistic(len(together))(together)


def probability_of_improvement(scores: Scores, others: Scores) -> np.ndarray:
    """Returns how likely a run of the first method is above one of the second on the same task, ties counting
    half, averaged over tasks: [...]."""
    found = []
    for mine, theirs in zip(scores, others, strict=True):
        pairs = mine[..., :, None], theirs[..., None, :]
        found.append(((pairs[0] > pairs[1]) + 0.5 * (pairs[0] == pairs[1])).mean((-2, -1)))
    return np.mean(found, 0)


def performance_profile(scores: Scores, thresholds: np.ndarray) -> np.ndarray:
    """Returns the share of runs above each threshold, averaged over tasks: [..., thresholds]."""
    return np.mean([(task[..., None] > thresholds).mean(-2) for task in scores], 0)


def estimated(statistic: Callable[..., np.ndarray], *methods: Scores, resamples: int = RESAMPLES) -> Estimate:
    """Returns a statistic of one or several methods, which are drawn independently, and its interval."""
    random, drawn = np.random.default_rng(0), []
    for first in range(0, resamples, _BLOCK):
        count = min(_BLOCK, resamples - first)
        blocks = [
            [np.asarray(task)[random.integers(len(task), size=(count, len(task)))] for task in scores]
            for scores in methods
        ]
        drawn.append(statistic(*blocks))
    lower, upper = np.percentile(np.concatenate(drawn), [2.5, 97.5], axis=0)
    return Estimate(statistic(*([np.asarray(task) for task in scores] for scores in methods)), lower, upper)
