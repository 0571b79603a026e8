"""The row of metrics of a window: which kinds an algorithm can log, and what a resumed one knows."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from rl.ops.loops import Last, Max, Min, Sum
from rl.types import Update
from rl.workers.plan import Workers

SHAPE = {"env": "CartPole-v1", "num_envs": 2, "rollout_length": 8}
SHAPE |= {"replay_capacity": 256, "min_replay_size": 16, "updates_per_iteration": 2, "batch_size": 4}


@pytest.fixture
def counting(build):
    """`counting("graph")`: a runner of that backend whose agent logs, of the number of each update, counted
    from 0, every kind of metric."""

    def make(backend, name="dqn", **overrides):
        settings = {key: value for key, value in SHAPE.items() if name == "dqn" or key in ("env", "num_envs")}
        runner = build(name, env_backend=backend, **settings | overrides)
        made = tf.Variable(0.0, trainable=False)

        def update(batch, seed):
            number = made.assign_add(1.0) - 1.0
            kinds = {"sum": Sum(number), "max": Max(-number), "min": Min(number), "last": Last(number)}
            return Update({"mean": number} | kinds)

        runner.agent.update = update
        return runner

    return make


def train(row):
    return {name.removeprefix("train/"): x for name, x in row.items() if name.startswith("train/")}


@pytest.mark.parametrize("backend", ["graph", "gym"])
def test_an_algorithm_logs_means_sums_extremes_and_last_values(counting, backend):
    runner = counting(backend)
    runner.run(3)
    # 16 transitions an iteration, of which the newest two have no successor yet: the first makes no update.
    expected = {"mean": 1.5, "sum": 6.0, "max": 0.0, "min": 0.0, "last": 3.0}
    assert train(runner.row()) == expected
    runner.run(1)  # another window: updates 4 and 5
    assert train(runner.row()) == {"mean": 4.5, "sum": 9.0, "max": -4.0, "min": 4.0, "last": 5.0}


@pytest.mark.parametrize("backend", ["graph", "gym"])
def test_a_window_without_updates_or_episodes_has_neither_metrics(counting, backend):
    runner = counting(backend, compile="eager")
    runner.run(1)
    assert runner.row() == {"episode/count": 0.0}


def test_a_window_that_is_left_is_gone_on_with(counting):
    runner = counting("gym", compile="eager")
    runner.advance(2)
    left = json.loads(json.dumps(runner.unfinished(), allow_nan=False))
    runner.begin_window()
    runner.resume_window(left)
    runner.advance(1)
    assert train(runner.row()) == {"mean": 1.5, "sum": 6.0, "max": 0.0, "min": 0.0, "last": 3.0}
    resumed = counting("gym", compile="eager")
    resumed.resume_window(left)  # whose row is asked for before anything is made
    assert train(resumed.row()) == {"mean": 0.5, "sum": 1.0, "max": 0.0, "min": 0.0, "last": 1.0}


FORMER = {  # what versions before the least and greatest return wrote of a window under way
    "names": ["episode_length", "episode_return", "episodes", "loss", "transitions", "updates"],
    "sums": [[40.0, 60.0, 3.0, 8.0, 16.0, 4.0]],
}


def test_a_window_of_a_former_version_is_gone_on_with_and_lacks_the_extremes(build):
    settings = {"num_envs": 2, "rollout_length": 64, "compile": "eager"}
    runner = build("a2c", env="CartPole-v1", env_backend="gym", **settings)
    runner.resume_window(json.loads(json.dumps(FORMER)))
    expected = {"episode/count": 3.0, "episode/return_mean": 20.0, "train/loss": 2.0}
    assert runner.row() == expected | {"episode/length_mean": 40.0 / 3.0}
    runner.agent.update = lambda batch, seed: Update({"loss": tf.constant(7.0)})
    runner.advance(1)
    row = runner.row()
    assert row["episode/count"] > 3.0 and row["train/loss"] == 3.0
    assert "episode/return_min" not in row and "episode/return_max" not in row
    runner.run(1)  # the next window
    assert runner.row()["episode/return_min"] <= runner.row()["episode/return_mean"]


@pytest.mark.slow
def test_workers_tell_the_least_and_the_greatest_return(build, ray_here):
    settings = {"num_envs": 2, "rollout_length": 64, "sync_workers": True}
    runner = build("a2c", env="CartPole-v1", workers=Workers(2), **settings)
    runner.run(2)
    row = runner.row()
    assert 1.0 <= row["episode/return_min"] <= row["episode/return_mean"] <= row["episode/return_max"]
    assert row["episode/return_min"] < row["episode/return_max"] == int(row["episode/return_max"])
    left = json.loads(json.dumps(runner.unfinished()))
    runner.begin_window()
    runner.resume_window(left)
    assert runner.row() == row
