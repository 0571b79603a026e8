"""The report of the learning results: its statistics, its verdicts, and that it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import bars
import report

SCORES = np.array([3.0, 100.0, 1.0, 2.0, 5.0, 4.0, 6.0, -80.0])


def row(seed=0, **fields):
    """A line of the results, as a CSV file holds it."""
    defaults = {"hparams": "some_set", "env": "Some-v0", "seed": seed, "steps": 1000, "best_step": 500}
    defaults |= {"last": 90.0, "best": 100.0, "episodes": 100, "seconds": 5.0, "first_window_s": 2.0}
    defaults |= {"cores": 2, "noisy": False}
    defaults["command"] = (
        f"python train.py --hparams some_set --seed {seed} --output_dir build/some_set/seed_{seed}"
    )
    return {key: str(value) for key, value in (defaults | fields).items()}


@pytest.fixture
def bar(monkeypatch):
    """Sets the bar of `some_set`."""
    return lambda *values: monkeypatch.setitem(bars.BARS, "some_set", bars.Bar(*values))


def test_the_interquartile_mean_leaves_out_a_quarter_at_each_end():
    assert report.interquartile_mean(SCORES) == (2.0 + 3.0 + 4.0 + 5.0) / 4
    assert report.interquartile_mean(SCORES[:3]) == SCORES[:3].mean()
    columns = np.stack([SCORES, 2 * SCORES], 1)
    np.testing.assert_allclose(report.interquartile_mean(columns), [3.5, 7.0])


def test_few_seeds_get_the_mean_and_many_the_interquartile_mean():
    assert report.interval(SCORES[:3])[0] == SCORES[:3].mean()
    assert report.interval(SCORES)[0] == 3.5


def test_intervals_are_those_of_the_resampled_means():
    """Of two seeds the mean of a resample is one, the other (a quarter each) or between."""
    middle, lower, upper = report.interval(np.array([1.0, 3.0]))
    assert (middle, lower, upper) == (2.0, 1.0, 3.0)
    generator = np.random.default_rng(1)
    values = generator.normal(5.0, 2.0, 40)
    means = [generator.choice(np.sort(values), 40) for _ in range(4000)]
    expected = np.percentile([report.interquartile_mean(each) for each in means], [2.5, 97.5])
    np.testing.assert_allclose(report.interval(values)[1:], expected, atol=0.1)
    curves = report.interval(np.stack([values, values + 1.0], 1))
    np.testing.assert_allclose(curves[1] + [1.0, 0.0], curves[1][1])


def test_statistics_are_rliables():
    library = pytest.importorskip("rliable.library", reason="rliable is not installed")
    from rliable import metrics

    scores = np.random.default_rng(2).normal(10.0, 3.0, 12)
    found = library.get_interval_estimates(
        {"x": scores[:, None]}, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=10_000
    )
    middle, lower, upper = report.interval(scores)
    np.testing.assert_allclose(found[0]["x"], middle)
    np.testing.assert_allclose(found[1]["x"][:, 0], [lower, upper], atol=0.1)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row(best=100.0), row(1, best=102.0)], "pass"),
        ([row(best=98.0), row(1, best=102.0)], "pass (1 of 2 seeds below)"),
        ([row(best=98.0), row(1, best=99.0)], "**miss**: return by 1.5"),
        ([row(best=99.9, last=100.0)], "pass (last checkpoint)"),
        ([row(best=99.96)], "**miss**: return by 0.04"),
        ([row(best_step=1004)], "pass"),  # the last iteration was whole
        ([row(best_step=1500)], "**miss**: steps by 500"),
        ([row(best=99.0, last=100.0, best_step=400, steps=2000)], "**miss**: steps by 1,000"),
        ([row(seconds=10.0), row(1, seconds=12.5)], "**miss**: time by 2.5 s"),
        ([row(best=50.0, last=40.0, seconds=11.0)], "**miss**: return by 50.0, time by 1.0 s"),
        ([row(best=50.0, last=90.0)], "**miss**: return by 10.0"),  # the nearer of the two
    ],
)
def test_verdicts(bar, rows, expected):
    bar(100.0, "Z", 1000, 10.0)
    assert report.verdict("some_set", rows) == expected
    assert report.bar_text("some_set") == ">= 100, within 1,000 steps, 10 s (Z)"
    assert report.verdict("a_set_without", rows) == report.bar_text("a_set_without") == "-"


def test_every_bar_names_its_source():
    for name, bar in bars.BARS.items():
        assert bar.source.split(",")[0] in bars.SOURCES, name


def test_every_line_and_command_is_in_the_report(tmp_path):
    rows = [row(seed, best=90.0 + seed) for seed in range(3)]
    text = report.markdown([*rows, row(hparams="other", env="A-v0", noisy=True)], tmp_path)
    assert text.index("## A-v0") < text.index("## Some-v0")
    assert "| `some_set` | 1,000 | - | 90.0, 91.0, 92.0 | 91.0 [90.0, 92.0] |" in text
    assert "7, 7, 7 (2 cores) |" in text and "7 (2 cores) busy |" in text
    words = "python train.py --hparams some_set --seed $s --output_dir build/some_set/seed_$s"
    assert f"    for s in 0 1 2; do {words}; done\n" in text


def test_sac_is_compared_at_equal_steps(tmp_path):
    assert report.cheetah(tmp_path) == []
    (tmp_path / "learning_curves.csv").write_text(
        "hparams,seed,step,return\n"
        + "".join(
            f"sac_halfcheetah,{s},{at},{at / 100 + s}\n" for s in (0, 1) for at in (19_990, 39_990, 60_010)
        )
    )
    assert report.cheetah(tmp_path) == []
    folder = tmp_path / "sb3_sac_halfcheetah"
    folder.mkdir()
    (folder / "seed_0.csv").write_text(
        "10000,50.0,3.5\n20000,150.0,7.0\n40000,450.0,15.0\n60000,900.0,20.0\n"
    )
    lines = report.cheetah(tmp_path)
    assert "| 20,000 | 200 [200, 201] | 200, 201 | 150 [150, 150] | 150 |" in lines
    # At 60,000 our last evaluation was that of step 39,990.
    assert lines[-1] == "After 60,000 steps ours is 500 BELOW theirs."


def test_the_report_is_that_of_the_tables():
    """`python benchmarks/report.py` writes it anew."""
    rows = report.read_table(report.RESULTS / "learning.csv")
    assert rows
    assert (report.RESULTS / "README.md").read_text() == report.markdown(rows, report.RESULTS)


def test_results_with_workers_have_the_bar_of_the_set_but_for_its_time():
    assert bars.bar_of("ppo_cartpole").seconds == 15.0
    with_workers = bars.bar_of("ppo_cartpole_workers_2")
    assert with_workers == bars.BARS["ppo_cartpole"]._replace(seconds=None)
    assert bars.bar_of("no_such_set_workers_2") is None and bars.bar_of("no_such_set") is None
