"""Rows of training tell each agent's own return: by hand, in every view, across rollouts and restarts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from marked import rest
from small_runs import train

from rl.envs.graph_host import GraphHost
from rl.envs.make import make_env
from rl.envs.registry import registry as envs
from rl.hparams.merge import resolve
from rl.ops.episodes import own_sums
from rl.storage.checkpoint import CheckpointManager
from tests.leavers import ENV_ID, Alike, Leavers

MEMORY = {"min_replay_size": 8, "batch_size": 8, "updates_per_iteration": 1}
PPO = {"minibatches": 1, "epochs": 1}
VIEWS = {"rows": ("ppo", PPO), "rows_and_state": ("mappo", PPO), "joint": ("vdn", MEMORY)}
TINY = {"env": ENV_ID, "num_envs": 2, "rollout_length": 5, "compile": "eager"}
OWN = {"first": 1.0, "second": 4.0, "third": 9.0}


@pytest.fixture(autouse=True)
def _leavers():
    envs.register(Leavers)
    yield
    envs._entries().pop(ENV_ID)


@pytest.fixture
def on_the_host(monkeypatch):
    """Has builders play in-graph environments on the host."""

    def made(*args: Any) -> GraphHost:
        env = GraphHost(make_env(*args))
        env.backend = "gym"
        return env

    monkeypatch.setattr("rl.runners.build.make_env", made)


def told(row):
    """What a row tells of agents."""
    known = {f"episode/return_{name}": name for name in OWN}
    return {known[name]: x for name, x in row.items() if name in known}


def test_sums_of_a_rollout_are_those_worked_out_by_hand():
    """Four steps of three environments of two agents. The first ends in its second step, resets, and goes on;
    the second runs all the while; the third begins with a reset, and ends in its fourth step."""
    start = tf.constant([[10.0, 20.0], [30.0, 40.0], [50.0, 60.0]])
    reward = np.zeros((4, 3, 2), np.float32)
    reward[:, 0] = [[1, 2], [3, 0], [0, 0], [5, 6]]
    reward[:, 1] = [[1, 1], [1, 1], [1, 0], [1, 0]]
    reward[:, 2] = [[0, 0], [7, 1], [7, 1], [7, 1]]
    goes_on = tf.constant([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
    ended = tf.constant(np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [0, 0, 1]], bool))
    sums, running = own_sums(start, tf.constant(reward), goes_on, ended)
    assert sums.numpy().tolist() == [14.0 + 21.0, 22.0 + 3.0]
    assert running.numpy().tolist() == [[5.0, 6.0], [34.0, 42.0], [0.0, 0.0]]


def test_what_is_unknown_or_nan_ends_with_its_episode():
    start, ended = tf.constant([[np.nan]]), tf.constant([[True], [False], [False], [True]])
    goes_on, reward = tf.constant([[1.0], [0.0], [1.0], [1.0]]), tf.ones([4, 1, 1])
    parts = [slice(0, 2), slice(2, 4)]
    sums, running = own_sums(start, reward[parts[0]], goes_on[parts[0]], ended[parts[0]])
    assert np.isnan(sums.numpy()) and running.numpy() == 1.0
    sums, running = own_sums(running, reward[parts[1]], goes_on[parts[1]], ended[parts[1]])
    assert sums.numpy() == 3.0 and running.numpy() == 0.0


@pytest.mark.parametrize(
    ("view", "where"),
    [
        ("rows", "graph"),
        ("joint", "graph"),
        ("rows", "host"),
        *rest(("rows_and_state", "graph"), ("rows_and_state", "host"), ("joint", "host")),
    ],
)
def test_a_row_tells_each_agents_own_return_across_rollouts(build, request, view, where):
    if where == "host":
        request.getfixturevalue("on_the_host")
    name, settings = VIEWS[view]
    runner = build(name, **TINY | settings)
    for ends in (2, 2, 4):  # 5 steps each, of episodes of 3 and a reset: they end in 3, 7, 11, 15
        runner.run(1)
        assert runner.row()["episode/count"] == ends and runner.row()["episode/return_mean"] == 14.0
        assert told(runner.row()) == OWN
    runner.run(2)
    assert told(runner.row()) == OWN


@pytest.mark.parametrize("view", ["rows", *rest("rows_and_state", "joint")])
def test_who_is_cut_off_has_what_it_was_paid_until_then(build, view):
    name, settings = VIEWS[view]
    runner = build(name, **TINY | settings, max_episode_steps=2)
    runner.run(1)
    assert runner.row()["episode/return_mean"] == 11.0
    assert told(runner.row()) == {"first": 1.0, "second": 4.0, "third": 6.0}


@pytest.mark.parametrize("view", ["rows", "joint", *rest("rows_and_state")])
def test_where_all_are_paid_the_same_an_own_return_ends_when_its_agent_leaves(build, view):
    envs._entries().pop(ENV_ID)
    envs.register(Alike)
    name, settings = VIEWS[view]
    runner = build(name, **TINY | settings)
    runner.run(2)
    assert runner.row()["episode/return_mean"] == 30.0
    assert told(runner.row()) == {"first": 10.0, "second": 20.0, "third": 30.0}


@pytest.mark.parametrize("view", ["rows", "joint", *rest("rows_and_state")])
def test_environments_of_pettingzoo_are_told_of_likewise(build, view):
    pytest.importorskip("pettingzoo")
    name, settings = VIEWS[view]
    options = {"env": "pettingzoo:leaving_team", "env_kwargs": {"pays": True}, "act_backend": "compiled"}
    runner = build(name, **TINY | settings | options)
    for ends in (2, 2, 4):
        runner.run(1)
        row = runner.row()
        assert row["episode/count"] == ends and row["episode/return_mean"] == 14.0
        found = {each: row[f"episode/return_{each}"] for each in "abc"}
        assert found == {"a": 1.0, "b": 4.0, "c": 9.0}


def test_a_window_without_an_end_tells_of_no_agent(build):
    runner = build("ppo", **TINY | PPO | {"rollout_length": 2})
    assert runner.run(1)["own_return/third"] == 0.0
    assert runner.row()["episode/count"] == 0.0 and told(runner.row()) == {}
    runner.run(1)
    assert told(runner.row()) == OWN


def test_an_environment_of_one_has_no_such_variables(build):
    runner = build("ppo", env="CartPole-v1", num_envs=2, rollout_length=4, compile="eager", **PPO)
    assert runner.own_returns is None and not runner.newer
    assert not any("own_return" in name for name in runner.variables)


@pytest.mark.parametrize("view", ["rows", *rest("rows_and_state", "joint")])
def test_a_run_that_was_stopped_has_the_rows_of_one_that_was_not(
    tmp_path, assert_same_bits, monkeypatch, view
):
    monkeypatch.setattr("rl.runners.in_graph.SHORT", 0.0)  # looks twice an iteration, however fast that is
    name, settings = VIEWS[view] if view != "rows" else ("a2c", {})  # whose update is traced in less time
    periods = {"log_period": 50, "train_steps": 150, "eval_period": 0}
    hparams = resolve(name, {**TINY, **settings, **periods, "compile": "graph"})
    _, straight = train(hparams, tmp_path / "straight")
    assert 0 < train(hparams, tmp_path / "parts", looks=4)[0] < 50  # within a window, and within an episode
    assert_same_bits(train(hparams, tmp_path / "parts")[1], straight)
    rows = (tmp_path / "straight/metrics.csv").read_bytes()
    assert (tmp_path / "parts/metrics.csv").read_bytes() == rows
    header, *values = (line.split(",") for line in rows.decode().splitlines())
    table = [dict(zip(header, each, strict=True)) for each in values]
    found = [{name: float(each[f"episode/return_{name}"]) for name in OWN} for each in table]
    assert found == [OWN] * 3


@pytest.mark.parametrize("where", ["graph", *rest("host")])
def test_a_checkpoint_of_an_earlier_version_goes_on_and_tells_of_agents_once_it_knows(
    build, request, tmp_path, where
):
    if where == "host":
        request.getfixturevalue("on_the_host")
    runner = build("ppo", **TINY | PPO)
    runner.run(1)
    held = {name: each for name, each in runner.variables.items() if "own_return" not in name}
    assert len(held) == len(runner.variables) - 2
    CheckpointManager(tmp_path).save(held, runner.step, {})
    resumed = build("ppo", **TINY | PPO)
    assert CheckpointManager(tmp_path).restore(resumed.variables, newer=resumed.newer) == {}
    resumed.restored(str(tmp_path))
    resumed.advance(1)  # the rest of a window that an earlier version began
    assert resumed.row()["episode/count"] > 0 and told(resumed.row()) == {}
    resumed.begin_window()
    resumed.advance(2)
    assert told(resumed.row()) == OWN
