"""Statistics of runs: numbers worked by hand, and rliable's."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest

from rl.report import statistics

SCORES = np.array([3.0, 100.0, 1.0, 2.0, 5.0, 4.0, 6.0, -80.0])


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert statistics.interquartile_mean(SCORES) == (2.0 + 3.0 + 4.0 + 5.0) / 4
    assert statistics.interquartile_mean(SCORES[:3]) == SCORES[:3].mean()
    columns = np.stack([SCORES, 2 * SCORES], 1)
    np.testing.assert_allclose(statistics.interquartile_mean(columns), [3.5, 7.0])


def test_few_runs_get_the_mean_and_many_the_interquartile_mean():
    assert statistics.interval(SCORES[:3]).value == SCORES[:3].mean()
    assert statistics.interval(SCORES).value == 3.5


def test_intervals_are_those_of_the_resampled_means():
    """Of two runs the mean of a resample is one, the other (a quarter each) or between."""
    assert statistics.interval(np.array([1.0, 3.0])) == (2.0, 1.0, 3.0)
    generator = np.random.default_rng(1)
    values = generator.normal(5.0, 2.0, 40)
    means = [generator.choice(np.sort(values), 40) for _ in range(4000)]
    expected = np.percentile([statistics.interquartile_mean(each) for each in means], [2.5, 97.5])
    np.testing.assert_allclose(statistics.interval(values)[1:], expected, atol=0.1)
    curves = statistics.interval(np.stack([values, values + 1.0], 1))
    np.testing.assert_allclose(curves.lower[0] + 1.0, curves.lower[1])


def test_a_long_curve_is_computed_in_parts_to_the_same_numbers(monkeypatch):
    values = np.random.default_rng(1).normal(size=(3, 5, 2))
    whole = statistics.interval(values)
    monkeypatch.setattr(statistics, "_NUMBERS", 60_000)  # two columns of 30,000
    for one, other in zip(whole, statistics.interval(values), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.shape == (5, 2)


def test_a_probability_of_improvement_counts_pairs_within_tasks():
    """3 of 4 pairs and a tie of 2 on the first task, no pair of 2 on the second."""
    mine, theirs = [np.array([2.0, 4.0]), np.array([0.0])], [np.array([1.0, 2.0]), np.array([5.0, 6.0])]
    assert statistics.probability_of_improvement(mine, theirs) == pytest.approx((3.5 / 4 + 0.0) / 2)
    found = statistics.estimated(statistics.probability_of_improvement, mine, theirs, resamples=700)
    assert 0.25 <= found.lower <= found.value <= found.upper == 0.5


def test_a_profile_is_the_share_of_runs_above_each_threshold():
    tasks = [np.array([1.0, 2.0, 3.0, 4.0]), np.array([3.0, 3.0])]
    np.testing.assert_allclose(
        statistics.performance_profile(tasks, np.array([0.0, 2.5, 3.0])), [1, 0.75, 0.125]
    )


def test_resamples_stay_within_their_task():
    """The spread between tasks is none of the runs'."""
    tasks = [np.full(5, 10.0), np.full(5, 20.0)]
    assert statistics.estimated(statistics.aggregate, tasks, resamples=50) == (15.0, 15.0, 15.0)


def test_statistics_are_rliables(monkeypatch):
    metrics = pytest.importorskip("rliable.metrics", reason="rliable is not installed")
    bootstrap = types.SimpleNamespace(IIDBootstrap=object, IndependentSamplesBootstrap=object)
    arch = types.ModuleType("arch")  # its bootstrap, which asks for an old pandas, is not looked at here
    monkeypatch.setitem(sys.modules, "arch", arch)
    monkeypatch.setitem(sys.modules, "arch.bootstrap", bootstrap)
    library = pytest.importorskip("rliable.library")
    random = np.random.default_rng(2)
    x, y = random.normal(10.0, 3.0, (12, 4)).round(), random.normal(11.0, 3.0, (9, 4)).round()
    mine, theirs = list(x.T), list(y.T)
    assert statistics.aggregate(mine) == pytest.approx(metrics.aggregate_iqm(x))
    expected = metrics.probability_of_improvement(x, y)
    assert statistics.probability_of_improvement(mine, theirs) == pytest.approx(expected)
    thresholds = np.linspace(0.0, 20.0, 15)
    profile = [library.run_score_deviation(x, threshold) for threshold in thresholds]
    np.testing.assert_allclose(statistics.performance_profile(mine, thresholds), profile)
