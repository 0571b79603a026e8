"""What the comparison of teams with BenchMARL makes of results, and which it makes again."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import teams

from rl.hparams.merge import resolve

pytestmark = pytest.mark.slow  # of scripts that are run by hand


def rows(library, returns, **changes):
    """Rows of one algorithm, a seed for each return."""
    mark = teams.settings(library, "qmix", 60_000)
    found = []
    for seed, each in enumerate(returns, 100):
        job = teams.Job(library, "qmix", seed, 60_000, mark)._asdict() | changes
        found.append({name: str(value) for name, value in job.items()})
        found[-1] |= {"mean_return": str(each), "seconds": "9.0"}
    return found


def line_of(found):
    """The only line of the page's table."""
    (line,) = [each for each in teams.page(found).splitlines() if each.startswith("| qmix")]
    return [each.strip() for each in line.strip("|").split("|")]


def test_a_line_compares_seeds_of_both_sides_after_the_same_steps():
    found = rows("ours", [-60.0, -61.0, -62.0]) + rows("benchmarl", [-80.0, -81.0, -82.0])
    cells = line_of(found)
    assert cells[:2] == ["qmix", "60,000"] and cells[2].startswith("-61.0 [") and cells[3] == "3"
    assert cells[5:] == ["3", "better", "9", "9"]
    assert line_of(rows("ours", [-90.0] * 3) + found[3:])[6] == "**worse than** the peer"


def test_rows_of_other_settings_than_now_stay_out_of_the_page():
    found = rows("ours", [-60.0, -61.0, -62.0])
    assert line_of(found + rows("benchmarl", [-80.0] * 3, settings="older"))[4:7] == ["", "", ""]


def test_maddpg_has_continuous_actions_and_epsilon_falls_over_a_third():
    maddpg, vdn = (resolve(f"{each}_spread", teams.overrides(each, 90)) for each in ("maddpg", "vdn"))
    assert (maddpg.env_kwargs, vdn.env_kwargs) == ({"continuous_actions": True}, {})
    assert (vdn.train_steps, vdn.exploration_steps) == (90, 30)


@pytest.mark.parametrize(
    "words", ["--seeds 6", "--seeds 0", "--algos coma", "--peer /nonexistent", "--report"]
)
def test_wrong_arguments_are_refused_before_anything_is_made(words, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["teams.py", "--results", str(tmp_path), *words.split()])
    with pytest.raises(teams.UsageError):
        teams.main()
    assert not list(tmp_path.iterdir())
