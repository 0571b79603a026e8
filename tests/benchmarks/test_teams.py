"""What the comparison of teams with other libraries makes of results, and which it makes again."""

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
    mark = teams.settings("spread", library, "qmix", 60_000)
    found = []
    for seed, each in enumerate(returns, 100):
        job = teams.Job("spread", library, "qmix", seed, 60_000, mark)._asdict() | changes
        found.append({name: str(value) for name, value in job.items()})
        found[-1] |= {"mean_return": str(each), "seconds": "9.0"}
    return found


def line_of(found):
    """The only line of the page's table."""
    (line,) = [each for each in teams.page(found).splitlines() if " | qmix | " in each]
    return [each.strip() for each in line.strip("|").split("|")]


def test_a_line_compares_seeds_of_both_sides_after_the_same_steps():
    found = rows("ours", [-60.0, -61.0, -62.0]) + rows("benchmarl", [-80.0, -81.0, -82.0])
    cells = line_of(found)
    assert cells[:3] == ["simple_spread", "qmix", "60,000"] and cells[3].startswith("-61.0 [")
    assert cells[4:6] == ["3", "BenchMARL"] and cells[7:] == ["3", "better", "9", "9"]
    assert line_of(rows("ours", [-90.0] * 3) + found[3:])[8] == "**worse than** the peer"


def test_rows_of_other_settings_than_now_stay_out_of_the_page():
    found = rows("ours", [-60.0, -61.0, -62.0])
    assert line_of(found + rows("benchmarl", [-80.0] * 3, settings="older"))[6:9] == ["", "", ""]


def test_maddpg_has_continuous_actions_and_epsilon_falls_over_a_third():
    maddpg, vdn = (resolve(*teams.ours("spread", each, 90)) for each in ("maddpg", "vdn"))
    assert (maddpg.env_kwargs, vdn.env_kwargs) == ({"continuous_actions": True}, {})
    assert (vdn.train_steps, vdn.exploration_steps) == (90, 30)


def test_foraging_is_played_without_the_masks_that_the_peer_does_not_have():
    hparams = resolve(*teams.ours("foraging", "ippo", 90))
    assert (hparams.algo, hparams.env, hparams.env_kwargs) == ("ppo", "Foraging-v0", {"action_masks": False})


def test_hunters_play_the_prey_that_the_peer_brings(monkeypatch, tmp_path):
    hparams = resolve(*teams.ours("tag", "vdn", 90))
    assert (hparams.algo, hparams.env, hparams.train_steps) == ("vdn", "Hunt-v0", 90)
    monkeypatch.setattr(teams, "PREY", tmp_path / "prey.npz")
    monkeypatch.setattr(sys, "argv", ["teams.py", "--tasks", "tag", "--libraries", "ours"])
    with pytest.raises(teams.UsageError, match="--epymarl PYTHON --checkout DIR make it"):
        teams.main()


def test_a_task_has_its_own_peer_and_both_sides_the_same_steps():
    found = teams.jobs(["spread", "foraging"], ["ours", "epymarl"], ["vdn"], [100])
    assert [each[:3] for each in found] == [
        ("spread", "ours", "vdn"),
        ("foraging", "ours", "vdn"),
        ("foraging", "epymarl", "vdn"),
    ]
    assert [each.steps for each in found] == [60_000, 100_000, 100_000]


@pytest.mark.parametrize(
    "words",
    ["--seeds 6", "--seeds 0", "--algos coma", "--benchmarl /nonexistent", "--libraries epymarl", "--report"],
)
def test_wrong_arguments_are_refused_before_anything_is_made(words, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["teams.py", "--results", str(tmp_path), *words.split()])
    with pytest.raises(teams.UsageError):
        teams.main()
    assert not list(tmp_path.iterdir())
