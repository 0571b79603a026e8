"""The driver of our own side of `make bench`, on workloads of a few steps."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import ours


def driven(monkeypatch, capsys, *words):
    """Returns the line that the driver prints."""
    monkeypatch.setattr(sys, "argv", ["ours.py", *words])
    ours.main()
    return json.loads(capsys.readouterr().out.splitlines()[-1].removeprefix("JSON "))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "steps", "updates"),
    [
        ("dqn --envs 10 --steps 12000", 12_000, None),
        ("ppo --envs 4 --steps 4096", 4096, 8 * 16),
        ("minatar --steps 16384 --envs 64", 16_384, 2 * 32),
        ("ppo --backend gym --steps 32768", 32_768, 32 * 16),
    ],
)
def test_each_workload_is_run_to_its_end(monkeypatch, capsys, words, steps, updates):
    line = driven(monkeypatch, capsys, *words.split())
    # Autoreset steps are made but not counted: an episode of a beginner has about twenty steps.
    assert 0.8 * steps < line["total_env_steps"] <= steps
    assert updates is None or line["total_updates"] == updates
    assert line["env_steps_per_s"] > 0


class Scripted:
    """A runner of 4 steps an iteration, each of two agents, with an update and half an episode that returns
    3."""

    steps_per_iteration, step = 4, 0
    agent = SimpleNamespace(rows_of_env=2)

    def __init__(self):
        self.calls = []

    def run(self, iterations):
        self.calls.append(iterations)
        self.step += 4 * iterations
        names = ("transitions", "updates", "episodes", "episode_return")
        return dict(zip(names, np.array([8.0, 1.0, 0.5, 1.5]) * iterations, strict=True))


def test_one_iteration_which_compiles_comes_before_what_is_measured():
    runner, meter = Scripted(), ours.Meter("rl", "0", "scripted", 0)
    assert ours.train(runner, meter, steps=38, window=3) == 3.0
    assert runner.calls == [1, 3, 3, 3]
    assert (meter.warm.steps, meter.warm.updates, meter.last.steps, meter.last.updates) == (4, 1, 40, 10)


@pytest.mark.parametrize("algo", ["ppo", "pong", "coinrun"])
def test_the_precision_is_said_whatever_the_set_has(monkeypatch, algo):
    for words, precision in (([], "float32"), (["--bfloat16"], "bfloat16")):
        monkeypatch.setattr(sys, "argv", ["ours.py", algo, *words])
        assert ours.resolve_hparams(ours.parse()).model.precision == precision
