"""An environment's own measures of episodes, from its infos to rows, tables and what `evaluate` returns."""

from __future__ import annotations

import contextlib
import csv
import json

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from small_runs import TINY

import rl
from rl import experiment
from rl.agents.algos.registry import get_algo
from rl.hparams.merge import resolve
from rl.report.progress import Progress
from rl.request import Request
from rl.runners.evaluate import Evaluation, Evaluator
from rl.storage.storage import Storage

# Of an environment's episodes, one after another: 2 of 5 succeed, and the mean place is 8 / 4.
INFOS = (
    {"is_success": True, "place": 1},
    {"is_success": False, "place": 2.5},
    {"is_success": np.float32(1.0), "place": np.int64(4), "path": [1, 2]},
    {"is_success": False},
    {"is_success": np.bool_(False), "place": np.array(0.5)},
)


class Telling(gymnasium.Env):
    """Episodes of two steps, the last of which says the next of `INFOS`; a seed begins with the first."""

    observation_space, action_space = spaces.Box(-1.0, 1.0, (1,), np.float32), spaces.Discrete(2)
    silent = False  # whether it says nothing, as before it learned to

    def reset(self, *, seed=None, options=None):
        self.episode = 0 if seed is not None else self.episode + 1
        self.steps = 0
        return np.zeros(1, np.float32), {"is_success": True, "place": 100}

    def step(self, action):
        self.steps += 1
        info = INFOS[self.episode % len(INFOS)] if self.steps == 2 else {"is_success": True, "place": 100}
        return np.zeros(1, np.float32), 1.0, self.steps == 2, False, {} if self.silent else info


@pytest.fixture
def telling(monkeypatch):
    """The environment's id; the episodes of an evaluation are played one after another."""
    gymnasium.register("Telling-v0", entry_point=Telling)
    monkeypatch.setattr("rl.runners.evaluate.MAX_PARALLEL", 1)
    yield "Telling-v0"
    del gymnasium.registry["Telling-v0"]


def evaluated(env_id, times=1, **overrides):
    """Five episodes, of the last of several evaluations."""
    hparams = resolve("ppo", {"env": env_id, "act_backend": "compiled", "compile": "eager", **overrides})
    agent = get_algo("ppo")(hparams, Telling.observation_space, Telling.action_space, 0)
    with contextlib.closing(Evaluator(agent, 5)) as evaluator:
        return [evaluator.run(0) for _ in range(times)][-1]


def test_measures_are_averaged_over_the_episodes_that_had_them(telling):
    found = evaluated(telling, info_keys=("place",))
    assert found.success_rate == pytest.approx(0.4)
    assert found.measures["success_rate"].tolist() == [1.0, 0.0, 1.0, 0.0, 0.0]
    np.testing.assert_array_equal(found.measures["place"], [1.0, 2.5, 4.0, np.nan, 0.5])
    row = found.metrics()
    assert (row["eval/success_rate"], row["eval/place"]) == (pytest.approx(0.4), 2.0)
    assert row["eval/return_mean"] == 2.0


def test_episodes_side_by_side_keep_their_own_measures(telling, monkeypatch):
    """The first of two environments plays three episodes, the other one two: what its third one says, which
    ends with the first one's third, does not count."""
    monkeypatch.setattr("rl.runners.evaluate.MAX_PARALLEL", 2)
    found = evaluated(telling, info_keys=("place",))
    assert found.measures["success_rate"].tolist() == [1.0, 1.0, 0.0, 0.0, 1.0]
    assert found.measures["place"].tolist() == [1.0, 1.0, 2.5, 2.5, 4.0]


def test_an_environment_that_says_nothing_has_no_measures(telling, monkeypatch, caplog):
    monkeypatch.setattr(Telling, "silent", True)
    found = evaluated(telling)
    assert found.success_rate is None and found.means() == {} and not caplog.records
    assert not [name for name in found.metrics() if "success" in name]


def test_what_no_episode_has_as_a_number_is_left_out_with_one_warning(telling, caplog):
    found = evaluated(telling, times=2, info_keys=("path", "plase", "place"))
    assert list(found.measures) == ["success_rate", "place"]
    what = "is left out: the info of an episode's last step has no number of that name"
    assert [each.getMessage() for each in caplog.records] == [
        f"eval/path {what} (known: is_success, place)",
        f"eval/plase {what} (did you mean place?)",
    ]


def rows(run):
    with open(run.run_dir / "metrics.csv", newline="") as file:
        return list(csv.DictReader(file))


def trained(folder, **settings):
    settings = {**TINY, "act_backend": "compiled", **settings}
    return rl.train("ppo", env="Telling-v0", output_dir=folder, eval_episodes=5, **settings)


def test_a_run_shows_them_in_its_rows_its_lines_and_its_policy(telling, tmp_path, monkeypatch):
    """In a window two environments end three episodes each: of their eight steps every third is a reset."""
    lines, update = [], Progress.update

    def updated(progress, *args):
        update(progress, *args)
        lines.append(progress.line())

    monkeypatch.setattr(Progress, "update", updated)
    run = trained(tmp_path, train_steps=16, info_keys=["place"])
    (row,) = rows(run)
    names = "eval/success_rate", "eval/place", "episode/success_rate", "episode/place"
    assert [float(row[name]) for name in names] == pytest.approx([0.4, 2.0, 2 / 3, 2.5])
    shown = "train success_rate 0.667  train place 2.500  eval success_rate 0.400  eval place 2.000"
    assert shown in lines[-1]
    found = rl.load(run.run_dir).evaluate(5)
    assert found.success_rate == pytest.approx(0.4) and found.means()["place"] == 2.0


def test_a_run_from_before_goes_on_with_columns_for_them(telling, tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(Telling, "silent", True)
        path = trained(tmp_path, train_steps=16).run_dir / "hparams.json"
    saved = json.loads(path.read_text())
    assert saved["hparams"].pop("info_keys") == []
    path.write_text(json.dumps(saved))
    first, second = rows(trained(tmp_path, train_steps=32, info_keys=("place",)))
    assert first["eval/return_mean"] == "2.0" and first["eval/success_rate"] == first["eval/place"] == ""
    assert (float(second["eval/success_rate"]), float(second["eval/place"])) == pytest.approx((0.4, 2.0))


def test_a_window_under_way_keeps_its_sums_in_checkpoints(telling, build):
    runner = build("ppo", env=telling, info_keys=("place",), **{**TINY, "compile": "eager"})
    runner.begin_window()
    runner.advance(1)
    expected = {"episode/success_rate": pytest.approx(2 / 3), "episode/place": 2.5}
    assert runner.scalars() == expected
    saved = json.loads(json.dumps(runner.unfinished()))
    runner.begin_window()
    assert runner.scalars() == {}
    runner.resume_window(saved)
    assert runner.scalars() == expected


def test_the_table_after_a_test_has_them_beside_the_return():
    measures = {"success_rate": np.array([1.0, 0.0]), "place": np.array([12.25, np.nan])}
    test = Evaluation(np.ones(2), np.ones(2), measures)
    row = experiment._summary(Request(None, test_episodes=2), Storage("runs/x/run_0"), None, {"best": test})
    assert list(row)[1:4] == [f"{name}, best checkpoint" for name in ("return", "success_rate", "place")]
    assert row["success_rate, best checkpoint"] == "0.500" and row["place, best checkpoint"] == "12.2"
