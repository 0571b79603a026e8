"""Runs whose environments fail: they go on, or end with a checkpoint from which they can."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from faulty import Faulty

from rl.cli import main

OVERRIDES = (
    "compile=graph,num_envs=2,rollout_length=8,minibatches=1,epochs=1,log_period=32,checkpoint_period=1000,"
    "env_restarts=2"
)


@pytest.fixture
def train(tmp_path):
    """Trains for 128 steps, 64 of each environment, with failures in some; returns the exit code."""

    def run(at, *flags, wrong="raise"):
        Faulty.steps, Faulty.at, Faulty.wrong = 0, at, wrong
        command = ["--hparams", "ppo", "--env", "faulty:Faulty", "--output_dir", str(tmp_path / "run")]
        steps = ["--train_steps", "128", "--eval_episodes", "3", "--test_episodes", "3"]
        return main([*command, *steps, "--hparam_override", OVERRIDES, *flags])

    return run


def last_row(path):
    with open(path) as file:
        return list(csv.DictReader(file))[-1]


def test_a_run_goes_on_when_environments_fail_now_and_then(train, tmp_path):
    # 54 steps of each of 64 are no autoreset, about 108 of both; the evaluation has 15, and so has the test.
    assert train({20, 115}) == 0
    (metrics, perf) = (last_row(tmp_path / "run" / "run_0" / name) for name in ("metrics.csv", "perf.csv"))
    assert metrics["step"] == "128" and float(perf["perf/environments_rebuilt"]) == 1.0
    assert float(metrics["eval/return_mean"]) == 5.0  # whole episodes: that of the failure was repeated
    log = (tmp_path / "run" / "run_0" / "train.log").read_text()
    assert log.count("ValueError: the simulator is gone") == 2 and "all are made anew (1 of 2 times)" in log


@pytest.mark.slow
def test_a_run_whose_environments_fail_too_often_can_go_on(train, tmp_path, capsys):
    assert train(set(range(20, 10_000))) == 3
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: faulty:Faulty: environment ") and "made anew 2 times before" in error
    assert error.endswith("; the checkpoint of step 16 is kept")
    assert not (tmp_path / "run" / "run_0" / "metrics.csv").exists()
    assert train(set()) == 0
    assert "resumed at step 16" in (tmp_path / "run" / "run_0" / "train.log").read_text()


def test_a_run_whose_environments_fail_before_anything_is_learned_says_so(train, capsys):
    never = OVERRIDES.replace("env_restarts=2", "env_restarts=0")
    assert train(set(range(4, 10_000)), "--hparam_override", never) == 3
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "the simulator is gone" in error and error.endswith("; the checkpoint of step 0 is kept")


def test_an_environment_that_hangs_is_interrupted(train, tmp_path):
    assert train({20}, "--hparam_override", f"{OVERRIDES},env_timeout=2", wrong="hang") == 0
    log = (tmp_path / "run" / "run_0" / "train.log").read_text()
    assert "it hangs for more than 2 s (env_timeout); all are made anew" in log


@pytest.mark.slow
def test_workers_go_on_and_say_whose_environments_failed(tmp_path):
    root = Path(__file__).parents[2]
    paths = os.pathsep.join([str(root / "tests"), str(root)])
    command = ["--hparams", "ppo", "--env", "faulty:Faulty", "--num_workers", "2", "--train_steps", "256"]
    together = f"{OVERRIDES},sync_workers=true"  # else one of them may play all the steps on a busy machine
    overrides = ["--hparam_override", together, "--eval_episodes", "3", "--output_dir", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(root / "train.py"), *command, *overrides],
        env=os.environ | {"FAULTY": "raise:20", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    log = (tmp_path / "run_0" / "train.log").read_text()
    for worker in range(2):
        assert f"worker {worker}: faulty:Faulty: environment " in log
    assert float(last_row(tmp_path / "run_0" / "perf.csv")["perf/environments_rebuilt"]) == 2.0
