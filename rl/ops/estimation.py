"""Off-policy estimation: a policy's return, estimated from episodes of another policy. NumPy alone.

E episodes of at most T steps, gamma a discount per step. Arrays are [..., E, T], where leading axes are of
independent data sets; what comes after an episode's end is 0.

    log_ratio  [..., E, T]      log pi(a_t | s_t) - log b(a_t | s_t), of the policy and of the one that played
    reward     [..., E, T]
    q          [..., E, T]      an estimate of the policy's value of (s_t, a_t)
    value      [..., E, T + 1]  an estimate of its value of s_t; the one after the last step is 0 where the
                                episode terminated, and is counted where it was only cut

Every estimator is a sum of quotients of sums over the episodes (`Sums`), which is all that the bootstrap
needs. With rho_t the product of the ratios up to step t, constant after the episode's end:

* importance sampling, per-decision, and their weighted forms: Precup, Sutton & Singh 2000, "Eligibility
  traces for off-policy policy evaluation", https://scholarworks.umass.edu/cs_faculty_pubs/80; Thomas 2015,
  "Safe reinforcement learning", https://people.cs.umass.edu/~pthomas/papers/Thomas2015c.pdf, chapter 3
* doubly robust: Jiang & Li 2016, https://arxiv.org/abs/1511.03722, equation 10
* weighted doubly robust: Thomas & Brunskill 2016, https://arxiv.org/abs/1604.00923, section 5
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

CHUNK = 1 << 24  # most numbers that a step of the bootstrap computes at a time


class Sums(NamedTuple):
    """The estimate sum_k (sum_i numerator[i, k]) / (sum_i denominator[i, k]), i over the episodes."""

    numerator: np.ndarray  # [..., E, K]
    denominator: np.ndarray  # [..., E, K]


def mean(of_episode: np.ndarray) -> Sums:
    """Returns the mean over the episodes of one number each, [..., E]."""
    return Sums(of_episode[..., None], np.ones_like(of_episode)[..., None])


def discounts(steps: int, gamma: float) -> np.ndarray:
    """Returns gamma^t for t = 0 ... steps - 1."""
    return gamma ** np.arange(steps, dtype=np.float64)


def discounted(reward: np.ndarray, gamma: float) -> np.ndarray:
    """Returns the discounted return of each episode, [..., E]."""
    return np.asarray(reward, np.float64) @ discounts(reward.shape[-1], gamma)


def importance_sampling(log_ratio: np.ndarray, reward: np.ndarray, gamma: float) -> Sums:
    """Estimates the policy's return by the mean of the returns, each times the ratio of its whole episode:
    unbiased. log_ratio, reward [..., E, T]."""
    with np.errstate(invalid="ignore"):  # an infinite ratio of a return of 0
        return mean(_ratio(log_ratio)[..., -1] * discounted(reward, gamma))


def episode_ratio(log_ratio: np.ndarray) -> Sums:
    """Estimates the mean of the whole episodes' ratios: 1 in expectation, and far below it where the episodes
    that the policy would play are not among those that were played. log_ratio [..., E, T]."""
    return mean(_ratio(log_ratio)[..., -1])


def weighted_importance_sampling(log_ratio: np.ndarray, reward: np.ndarray, gamma: float) -> Sums:
    """Estimates the policy's return by the average of the returns, weighed by the ratios of the episodes:
    consistent, of less variance than `importance_sampling`. log_ratio, reward [..., E, T]."""
    weight = _relative_ratio(log_ratio)[..., -1:]
    return Sums(weight * discounted(reward, gamma)[..., None], weight)


def per_decision(log_ratio: np.ndarray, reward: np.ndarray, gamma: float) -> Sums:
    """Estimates the policy's return by the mean of the episodes' sums of discounted rewards, each times the
    ratio up to its step: unbiased. log_ratio, reward [..., E, T]."""
    with np.errstate(invalid="ignore"):  # an infinite ratio of a reward of 0
        return mean(discounted(_ratio(log_ratio) * reward, gamma))


def weighted_per_decision(log_ratio: np.ndarray, reward: np.ndarray, gamma: float) -> Sums:
    """Estimates the policy's return by the sum over the steps of the average discounted reward, weighed by
    the ratios up to it (CWPDIS, Thomas 2015). log_ratio, reward [..., E, T]."""
    weight = _relative_ratio(log_ratio)
    return Sums(weight * reward * discounts(reward.shape[-1], gamma), weight)


def direct(value: np.ndarray) -> Sums:
    """Estimates the policy's return by the mean of the first observations' values; value [..., E, T+1]."""
    return mean(np.asarray(value[..., 0], np.float64))


def doubly_robust(
    log_ratio: np.ndarray, reward: np.ndarray, q: np.ndarray, value: np.ndarray, gamma: float
) -> Sums:
    """Estimates the policy's return by the recursion V_t = v_t + pi / b (r_t + gamma V_{t+1} - q_t) from each
    episode's end (Jiang & Li 2016, equation 10), unrolled: unbiased where b is known, for any q of which
    value is the policy's mean. log_ratio, reward, q [..., E, T]; value [..., E, T+1]."""
    steps = reward.shape[-1]
    ratio = _ratio(log_ratio)
    corrected = discounted(ratio * (reward - q), gamma)
    return mean(corrected + _before(ratio) * value @ discounts(steps + 1, gamma))


def weighted_doubly_robust(
    log_ratio: np.ndarray, reward: np.ndarray, q: np.ndarray, value: np.ndarray, gamma: float
) -> Sums:
    """Estimates the policy's return as `doubly_robust`, with the ratios of each step divided by their sum
    over the episodes (Thomas & Brunskill 2016, section 5)."""
    steps = reward.shape[-1]
    weight = _relative_ratio(log_ratio)
    before = _before(weight)
    corrections = weight * (reward - q) * discounts(steps, gamma)
    values = before * value * discounts(steps + 1, gamma)
    return Sums(np.concatenate([corrections, values], -1), np.concatenate([weight, before], -1))


def effective_sample_size(log_ratio: np.ndarray) -> np.ndarray:
    """Returns (sum w)^2 / sum w^2 of the ratios w of whole episodes, [...] (Kong 1992): the equivalent number
    of episodes of the policy itself; 0 where all ratios are 0."""
    weight = _relative_ratio(log_ratio)[..., -1]
    squares = np.sum(np.square(weight), -1)
    return np.where(squares > 0.0, np.square(weight.sum(-1)) / np.where(squares > 0.0, squares, 1.0), 0.0)


def estimate(sums: Sums, counts: np.ndarray | None = None) -> np.ndarray:
    """Returns the estimate, [...]; NaN where all weights are 0.

    counts: [B, E], how often each of B resamples contains each episode; then the estimates are [..., B].
    """
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):  # ratios may be infinite
        if counts is None:
            top, bottom = sums.numerator.sum(-2), sums.denominator.sum(-2)  # [..., K]
        else:
            top, bottom = (np.moveaxis(np.tensordot(counts, x, (1, -2)), 0, -2) for x in sums)  # [..., B, K]
        found: np.ndarray = np.sum(top / bottom, -1)
    return found


def bootstrap_counts(episodes: int, resamples: int, seed: int) -> np.ndarray:
    """Resamples the episodes with replacement B times; returns how often each is drawn, float64 [B, E]."""
    drawn = np.random.default_rng(seed).integers(episodes, size=(resamples, episodes))
    flat = drawn + episodes * np.arange(resamples)[:, None]
    counts = np.bincount(flat.reshape(-1), minlength=resamples * episodes)
    return counts.reshape(resamples, episodes).astype(np.float64)


def bootstrap_interval(
    sums: Sums, counts: np.ndarray, coverage: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the bounds (low, high), [...] each, of an interval that contains the share `coverage` of the
    resampled estimates (the percentile bootstrap of Efron 1979).

    counts: from `bootstrap_counts`. Resamples in which all weights are 0 are left out.
    """
    rows = max(1, CHUNK // max(1, sums.numerator.size // counts.shape[1]))
    parts = [estimate(sums, counts[i : i + rows]) for i in range(0, len(counts), rows)]
    resampled = np.concatenate(parts, -1)  # [..., B]
    bounds = [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0]
    if not np.isnan(resampled).any():  # the other function takes a hundred times as long
        low, high = np.quantile(resampled, bounds, axis=-1)
        return low, high
    known = ~np.isnan(resampled).all(-1)
    low, high = np.nanquantile(np.where(known[..., None], resampled, 0.0), bounds, axis=-1)
    return np.where(known, low, np.nan), np.where(known, high, np.nan)


def padded(column: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns rows [N] of episodes one after another as [E, T] float64, 0 after each end.

    lengths: int [E]; their sum is N.
    """
    found = np.zeros((len(lengths), int(np.max(lengths))))
    found[np.arange(found.shape[1]) < np.asarray(lengths)[:, None]] = column
    return found


def _ratio(log_ratio: np.ndarray) -> np.ndarray:
    """rho_t, [..., E, T]; infinite where a float64 has not enough room."""
    with np.errstate(over="ignore"):
        found: np.ndarray = np.exp(np.cumsum(np.asarray(log_ratio, np.float64), -1))
    return found


def _relative_ratio(log_ratio: np.ndarray) -> np.ndarray:
    """rho_t divided by the largest of all episodes at that step, [..., E, T]: weights only need ratios."""
    total = np.cumsum(np.asarray(log_ratio, np.float64), -1)
    most = total.max(-2, keepdims=True)
    relative: np.ndarray = np.exp(total - np.where(np.isfinite(most), most, 0.0))
    return relative


def _before(ratio: np.ndarray) -> np.ndarray:
    """rho_{t-1} for t = 0 ... T, of which the first is 1, [..., E, T + 1]."""
    return np.concatenate([np.ones_like(ratio[..., :1]), ratio], -1)
