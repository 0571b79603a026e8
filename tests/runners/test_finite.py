"""What becomes of a run that meets numbers that are none: updates that do are left out."""

from __future__ import annotations

import contextlib
import math

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from small_runs import trainer_of
from stop_after import StopAfter

from rl.envs.faults import Watched
from rl.hparams.merge import resolve
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.finite import FiniteCheck
from rl.storage.checkpoint import read_manifest

TINY = {
    "env": "Poisoned-v0",
    "env_backend": "gym",
    "compile": "graph",
    "num_envs": 2,
    "rollout_length": 16,
    "log_period": 64,
    "train_steps": 512,
    "eval_period": 128,
    "checkpoint_period": 0,
}
DQN = {"replay_capacity": 500, "min_replay_size": 32, "batch_size": 64, "updates_per_iteration": 16}


class Poisoned(CartPoleEnv):
    """CartPole; one step, counted over all episodes, has NaN in the reward or in the observation."""

    what, at = "reward", 10**9

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.count = 0

    def step(self, action):
        self.count += 1
        observation, reward, *ends = super().step(action)
        if self.count == self.at and self.what == "reward":
            reward = np.nan
        elif self.count == self.at and self.what == "observation":
            observation = observation * np.float32(np.nan)
        return observation, reward, *ends


@pytest.fixture
def poison(monkeypatch):
    """Says what the environment's 150th step has; both of the two environments count for themselves."""
    gymnasium.register("Poisoned-v0", entry_point=Poisoned, max_episode_steps=500)
    monkeypatch.setattr(Poisoned, "at", 150)
    # Let through, as NaN of an in-graph environment is.
    monkeypatch.setattr(Watched, "_refuse_not_finite", lambda *_: None)
    yield lambda what: monkeypatch.setattr(Poisoned, "what", what)
    del gymnasium.registry["Poisoned-v0"]


def trainer(run_dir, name, overrides):
    return trainer_of(resolve(name, TINY | overrides), run_dir)


def train(run_dir, name, overrides):
    with contextlib.closing(trainer(run_dir, name, overrides)) as one:
        return one.train(StopAfter())


@pytest.mark.parametrize(
    ("name", "what", "overrides"),
    [
        ("ppo", "reward", {"normalize_reward": True}),
        pytest.param("ppo", "observation", {"normalize_observation": True}, marks=pytest.mark.slow),
        pytest.param("dqn", "reward", DQN, marks=pytest.mark.slow),
        pytest.param(
            "dqn",
            "observation",
            DQN | {"normalize_observation": True, "nan_patience": 1000},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_updates_that_meet_nan_are_left_out_and_the_run_goes_on(tmp_path, poison, name, what, overrides):
    poison(what)
    train(tmp_path, name, overrides)
    rows = [line.split(",") for line in (tmp_path / "metrics.csv").read_text().splitlines()]
    column = rows[0].index("train/skipped_updates")
    assert next(row[0] for row in rows[1:] if row[column]) == "320"  # both environments' 150th step is there
    assert all(math.isfinite(float(row[rows[0].index("train/loss")] or 0)) for row in rows[1:])
    assert f"the {what} was NaN or infinite" in (tmp_path / "train.log").read_text()
    with contextlib.closing(trainer(tmp_path, name, overrides)) as resumed:
        assert resumed.runner.step == 512 and resumed.health.look({}) == ""


def test_an_evaluation_of_nan_is_not_the_best_for_ever(tmp_path, poison, monkeypatch):
    poison("nothing")
    means = iter([np.nan, 7.0, 5.0, np.nan])

    def run(self, *_):
        returns = np.full(2, next(means))
        return Evaluation(returns, np.ones(2))

    monkeypatch.setattr(Evaluator, "run", run)
    result = train(tmp_path, "ppo", {})
    assert result.best_return == 7.0
    assert read_manifest(tmp_path / "checkpoints/best").meta["return_mean"] == 7.0


def test_what_is_not_finite_is_named():
    variables = {
        "good": tf.Variable([1.0, 2.0]),
        "bad": tf.Variable([1.0, np.inf]),
        "count": tf.Variable(3, dtype=tf.int64),
    }
    check = FiniteCheck(variables)
    assert check.trouble({"train/loss": 1.0, "eval/return_mean": float("nan")}) == "not finite: bad"
    variables["good"].assign([np.nan, 0.0])
    assert check.trouble({"train/loss": float("nan")}) == "train/loss is nan; not finite: good, bad"
    variables["good"].assign([0.0, 0.0])
    variables["bad"].assign([0.0, 0.0])
    assert check.trouble({"train/loss": 1.0}) == ""
