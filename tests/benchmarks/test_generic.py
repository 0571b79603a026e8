"""What the page of generic sets says of measured returns."""

from __future__ import annotations

import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import generic
import generic_envs

pytestmark = pytest.mark.slow  # of scripts that are run by hand

generic_envs.register_generic()


@pytest.mark.parametrize(
    "mine, theirs, chance, result",
    [
        ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], [0.0], "learns, better"),
        ([5.0, 6.0, 7.0], [6.0, 7.0, 9.0], [0.0], "learns, no worse"),
        ([5.0, 6.0, 7.0], [8.0, 9.0, 10.0], [0.0], "learns, **worse than** the peer"),
        ([5.0, 6.0, 7.0], [], [5.5], "**not above random play**"),
        ([5.0, 6.0, 7.0], [1.0, 2.0, 3.0], [], "better"),
        ([5.0, 6.0], [1.0, 2.0, 3.0], [0.0], "too few seeds"),
        ([5.0, 6.0, 7.0], [9.0], [0.0], "learns"),  # one seed of the peer says nothing of either
    ],
)
def test_verdict_compares_intervals(mine, theirs, chance, result):
    assert generic.verdict(mine, theirs, chance) == result


def test_who_stands_still_where_random_play_falls_does_not_learn():
    still = "**not above standing still**"
    assert generic.verdict([-1000.0] * 3, [], [-9687.5], -1000.0) == still
    assert generic.verdict([-1000.0, -13.0, -13.0], [], [-9687.5], -1000.0) == still  # one of three does
    assert generic.verdict([-15.0, -13.0, -13.0], [], [-9687.5], -1000.0) == "learns"
    assert generic.verdict([-9999.0] * 3, [], [-9687.5], -1000.0) == "**not above random play**"


def test_pairs_that_learn_and_pairs_that_are_compared_are_counted_apart():
    results = [
        "learns",
        "learns, **worse than** the peer",
        "better",
        "**not above random play**",
        "too few seeds",
    ]
    said = generic.summary(results)
    assert said.startswith("2 of 4 pairs") and "; 1 more have fewer. Compared" in said
    assert said.endswith(": 2, 1 of them worse.")


def test_rows_of_other_steps_values_or_seeds_do_not_count():
    job = generic.jobs(["ours"], ["ppo"], [100], {})[0]
    row = {name: str(value) for name, value in job._asdict().items()} | {"mean_return": "12.0"}
    peer = row | {"library": "sb3", "settings": ""}
    others = [row | {"steps": "7"}, row | {"settings": "0"}, row | {"seed": "7"}, peer | {"steps": "7"}]
    returns, older = generic.of_now([row, peer, *others], {})
    assert returns == {("ours", "ppo", job.env): [12.0], ("sb3", "ppo", job.env): [12.0]}
    assert older == {"ppo": 3}


@pytest.mark.parametrize(
    "words",
    [
        "--first_seed 0",
        "--first_seed 103 --seeds 3",
        "--seeds 0",
        "--jobs 0",
        "--peer_only",
        "--peer /nonexistent",
        "--families ppoo",
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_made(words, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["generic.py", "--results", str(tmp_path), *words.split()])
    with pytest.raises(generic.UsageError):
        generic.main()
    assert not list(tmp_path.iterdir())


def table(folder):
    return generic.report.read_table(folder / "generic.csv")


def test_a_run_of_a_set_that_has_changed_is_left_out_and_made_again(tmp_path):
    job = generic.jobs(["ours"], ["ppo"], [100], {})[0]
    row = job._asdict() | {"mean_return": 12.0, "seconds": 1.0}
    generic.add_row(tmp_path / "generic.csv", row | {"settings": "0123456789"})
    assert "**other values** than now, left out: 1" in generic.page(table(tmp_path), {})
    generic.add_row(tmp_path / "generic.csv", row)  # in its place
    rows = table(tmp_path)
    assert [each["settings"] for each in rows] == [job.settings]
    assert "other values" not in generic.page(rows, {})


def test_hparams_that_came_later_leave_a_run_what_it_was(tmp_path):
    job = generic.jobs(["ours"], ["ppo"], [100], {})[0]
    generic.add_row(tmp_path / "generic.csv", job._asdict() | {"mean_return": 12.0, "seconds": 1.0})
    known = generic.trained.read(tmp_path, generic.HPARAMS)
    assert list(known) == [job.settings]
    then = dict(known[job.settings])
    assert then.pop("previous_action_reward") is False
    assert generic.settings("ppo", {"older": then}) == "older"
    assert generic.settings("ppo", {"older": then | {"lr": 0.5}}) == job.settings
    assert generic.settings("ppo", {"older": then | {"no_longer_there": 1}}) == job.settings


@pytest.mark.parametrize("env_id", ["IdentityBox-v0", "DictCartPole-v0", "DictPendulum-v0"])
def test_environments_keep_gymnasiums_rules(env_id):
    check_env(gymnasium.make(env_id).unwrapped, skip_render_check=True)


def test_every_player_begins_at_the_same_starts():
    seen = []

    def player(number):
        return lambda observation, info: seen.append((number, *observation)) or np.zeros(1, np.float32)

    first, second = (generic_envs.play("IdentityBox-v0", player(i), 3) for i in range(2))
    assert list(first) == list(second) and len(set(first)) > 1
    assert [each[1] for each in seen if each[0] == 0] == [each[1] for each in seen if each[0] == 1]
    assert seen[0][1] == gymnasium.make("IdentityBox-v0").reset(seed=generic_envs.FIRST_START)[0][0]


def test_identity_rewards_what_is_within_a_twentieth():
    env = gymnasium.make("IdentityBox-v0")
    shown, _ = env.reset(seed=3)
    shown, near, *_ = env.step(np.clip(shown + 0.049, -1.0, 1.0))
    _, far, *_ = env.step(shown - 0.051)
    assert (near, far) == (1.0, 0.0)
