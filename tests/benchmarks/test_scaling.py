"""The benchmark of workers: its environment, when it measures, what it keeps, its report."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks" / "peers"))

import ours_workers
import scaling
import scaling_report
import sleeping_env
import watch

pytestmark = pytest.mark.slow  # of scripts that are run by hand


ARGS = scaling.command_line().parse_args([])


def rate(library, algo, workers, *steps):
    """Rows of the results, as a CSV file holds them: one for each round."""
    run = scaling.Run("rate", library, algo, workers)
    empty = dict.fromkeys(scaling.FIELDS, "")
    names = dict(zip(scaling.KEY, run.key(1, ARGS), strict=True))
    return [empty | names | {"round": str(i), "env_steps_per_s": str(n), "idle": "True", "version": "1"}
            for i, n in enumerate(steps)]  # fmt: skip


def test_the_sleeping_environment_is_cartpole(monkeypatch):
    monkeypatch.setattr(sleeping_env, "SLEEP_S", 0.0)
    envs = [gymnasium.make(name) for name in (sleeping_env.ENV_ID, "CartPole-v1")]
    assert envs[0].spec.max_episode_steps == envs[1].spec.max_episode_steps == 500
    for observations in zip(*(env.reset(seed=3)[0] for env in envs), strict=True):
        assert observations[0] == observations[1]
    for action in (0, 1, 1, 0, 1):
        one, other = (env.step(action) for env in envs)
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1:4] == other[1:4]


def test_its_sleep_is_asked_for_once_a_step(monkeypatch):
    slept = []
    monkeypatch.setattr(sleeping_env.time, "sleep", slept.append)
    env = gymnasium.make(sleeping_env.ENV_ID)
    env.reset(seed=0)
    env.step(0)
    assert slept == [sleeping_env.SLEEP_S] == [0.005]


def clocked(monkeypatch, **options):
    """A watch, and the list whose first entry is the time."""
    clock = [100.0]
    monkeypatch.setattr(watch.time, "perf_counter", lambda: clock[0])
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    found = watch.Watch("some", "1", watch.parser("").parse_args(["impala", *words]))
    found.start()
    return found, clock


def test_the_rate_begins_when_all_play_and_learn(monkeypatch, capsys):
    found, clock = clocked(monkeypatch, workers=2, warmup_s=4, measure_s=10)
    marks = [  # time, steps, updates, workers that play
        (101, 100, 1, 1),
        (102, 200, 0, 2),
        (110, 300, 3, 2),  # from here on all do
        (113, 350, 4, 2),
        (114, 400, 5, 2),  # warm
        (120, 900, 9, 2),
    ]
    for at, *mark in marks:
        clock[0] = at
        assert not found.mark(*mark, None)
    clock[0] = 124
    assert found.mark(1400, 25, 2, None)
    found.report()
    line = json.loads(capsys.readouterr().out.removeprefix("JSON "))
    assert (line["env_steps_per_s"], line["updates_per_s"], line["measured_s"]) == (100.0, 2.0, 10.0)
    assert line["memory_mb"] > 0


def test_learning_ends_at_the_target_or_at_the_limit(monkeypatch, capsys):
    found, clock = clocked(monkeypatch, task="learn", limit_s=50)
    clock[0] = 110
    assert not found.mark(100, 1, 1, None)
    assert not found.mark(200, 2, 1, 449.9)
    assert found.mark(300, 3, 1, 450.0)
    found.report()
    line = json.loads(capsys.readouterr().out.removeprefix("JSON "))
    assert line["reached"] and line["seconds_from_first_update"] == 0.0
    clock[0] = 151
    assert found.mark(400, 4, 1, 20.0) and not found.reached


def test_the_recent_mean_is_over_the_last_hundred_episodes():
    recent = ours_workers.Recent()
    assert recent.add(60.0, 60.0 * 10) is None
    assert recent.add(0.0, 0.0) is None
    assert recent.add(50.0, 50.0 * 20) == (600 + 1000) / 110
    assert recent.add(50.0, 50.0 * 20) == 20.0


@pytest.mark.parametrize("algo", ["impala", "apex", "appo"])
def test_the_workloads_are_hyperparameters_of_their_sets(algo):
    args = watch.parser("").parse_args([algo, "--workers", "2"])
    hparams = ours_workers.resolve_hparams(args)
    assert (hparams.env, hparams.num_envs, hparams.rollout_length) == (sleeping_env.ENV_ID, 1, 100)


def test_a_round_has_everything_once_and_peers_beside_ours():
    args = scaling.command_line().parse_args([])
    runs = scaling.plan(args)
    assert len({run.key(1, args) for run in runs}) == len(runs)
    for count in scaling.WORKERS:
        assert {run.algo for run in runs if (run.library, run.workers) == ("ours", count)} >= {
            "impala",
            "apex",
        }
    alone = scaling.plan(scaling.command_line().parse_args(["--skip_peers", "--task", "rate"]))
    assert {run.library for run in alone} == {"ours", "environment"}
    for run in runs:
        options = watch.parser("").parse_args(run.arguments(2, args)[1:])
        assert (options.task, options.workers, options.seed) == (run.task, run.workers, 2)


def test_measured_rows_are_kept_and_failed_ones_repeated(tmp_path, monkeypatch):
    done = []

    def one_run(run, round_number, args):
        done.append((run.workers, round_number))
        row = dict(zip(scaling.KEY, run.key(round_number, args), strict=True))
        row |= {"idle": True, "output": "no"}
        return row | ({"error": "exit code 1"} if run.workers == 2 else {"env_steps_per_s": 7.0})

    monkeypatch.setattr(scaling, "one_run", one_run)
    words = ["--skip_peers", "--task", "rate", "--only", "impala", "--rounds", "2", "--workers", "1", "2"]
    path = tmp_path / "scaling.csv"
    args = scaling.command_line().parse_args(words)
    assert not scaling.measure_all(args, path)
    assert done == [(1, 1), (2, 1), (1, 2), (2, 2)]
    done.clear()
    scaling.measure_all(args, path)
    assert done == [(2, 1), (2, 2)]
    assert [row["env_steps_per_s"] for row in scaling.read_rows(path).values()] == ["7.0", "7.0"]
    done.clear()
    scaling.measure_all(argparse.Namespace(**vars(args) | {"restart": True}), path)
    assert len(done) == 4
    for changed in ({"awake": True}, {"warmup_s": 1.0}, {"measure_s": 9.0}):  # measured beside them
        done.clear()
        scaling.measure_all(argparse.Namespace(**vars(args) | changed), path)
        assert len(done) == 4
    assert len(scaling.read_rows(path)) == 8


def test_fractions_are_of_so_many_times_one_worker():
    rows = rate("ours", "impala", 1, 90.0, 100.0, 150.0) + rate("ours", "impala", 4, 380.0)
    found = scaling_report.rates(rows)
    assert scaling_report.fractions(found["ours", "impala"]) == {1: 1.0, 4: 0.95}


def test_the_report_compares_with_the_faster_peer(tmp_path):
    rows = rate("ours", "impala", 1, 100.0) + rate("environment", "environment", 1, 125.0)
    rows += rate("rllib", "impala", 1, 50.0) + rate("rllib", "appo", 1, 80.0)
    times = {"task": "learn", "seconds_from_launch": "21.5", "seconds_from_first_update": "9.5"}
    times["total_env_steps"] = "90000"
    for row, reached in zip(rate("ours", "impala", 2, "", ""), ("True", "False"), strict=True):
        rows.append(row | times | {"reached": reached})
    text = scaling_report.write(rows, tmp_path)
    assert "| IMPALA | 1 | 100 | 1.00 | 0.80 | 1.25 (APPO) | 1 |" in text
    assert "| IMPALA | 2 x 1 | 1 of 2 | 21.5 | 9.5 | 90,000 |" in text
    assert (tmp_path / "scaling.md").read_text() == text
    assert (tmp_path / "scaling.png").stat().st_size > 1000


def test_rows_that_were_not_measured_alike_are_not_pooled(tmp_path):
    rows = rate("ours", "impala", 1, 100.0) + rate("ours", "impala", 2, 200.0)
    for changed in ({"awake": "True"}, {"nice": "7"}, {"warmup_s": "1"}, {"measure_s": "2"}):
        others = [row | changed for row in rate("ours", "impala", 1, 900.0)]
        text = scaling_report.write([*rows, *others], tmp_path)
        assert "| IMPALA | 2 | 200 | 1.00 |" in text and "| IMPALA | 1 | 900 | 1.00 |" in text


WRONG = ("--only nosuch", "--workers 0", "--rounds -1", "--measure_s 0", "--report")


@pytest.mark.parametrize("words", WRONG)
def test_wrong_arguments_are_refused_before_anything_is_measured(words, tmp_path, monkeypatch):
    words = ["scaling.py", "--results", str(tmp_path), "--skip_peers", *words.split()]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(scaling.UsageError):
        scaling.main()
    assert not list(tmp_path.iterdir())


def test_cores_are_kept_awake_at_idle_priority_for_as_long_as_asked():
    with scaling.awake(False) as none, scaling.awake(True) as loops:
        assert none == [] and len(loops) == len(os.sched_getaffinity(0))
        deadline = time.monotonic() + 30.0
        while {os.sched_getscheduler(each) for each in loops} != {os.SCHED_IDLE}:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    for each in loops:
        with pytest.raises(ProcessLookupError):
            os.kill(each, 0)


def test_speeds_of_different_rounds_are_not_compared():
    rows = rate("ours", "impala", 2, 100.0, 300.0, 900.0) + rate("rllib", "impala", 2, 50.0, 100.0)
    rows += rate("ours", "apex", 2, 100.0)
    rows += [row | {"round": "4"} for row in rate("rllib", "appo", 8, 10.0) + rate("rllib", "appo", 2, 9.0)]
    assert scaling_report.beside_peer(rows, "impala", 2) == (2.5, "impala")
    assert scaling_report.beside_peer(rows, "apex", 2) == (2.0, "impala")
    assert scaling_report.beside_peer(rows, "impala", 8) is None
