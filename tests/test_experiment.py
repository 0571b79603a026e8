"""Several copies of a run, of which one comes to nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

import rl
from rl import experiment
from rl.errors import NotFinite, NotSent, Unavailable, UsageError
from rl.hparams.merge import resolve
from rl.request import Request
from rl.runners import trainer
from rl.runners.evaluate import Evaluation
from rl.runners.trainer import Result
from rl.storage.storage import Storage


def run(folder, copies):
    return experiment.run(
        Request(
            resolve("ppo_identity", ""),
            "ppo_identity",
            output_dir=str(folder),
            copies=copies,
            eval_episodes=1,
            test_episodes=1,
        )
    )


@pytest.fixture
def copies(monkeypatch):
    """Numbers of the copies that were trained; those named in `fails` raise."""
    trained, fails = [], {}

    def one_copy(request, storage, number, stop, kept):
        trained.append(number)
        if number in fails:
            raise fails[number]
        return [{"run": storage.address}]

    monkeypatch.setattr(experiment, "one_copy", one_copy)
    return trained, fails


@pytest.mark.parametrize(
    "error", [NotFinite("step 64: train/loss is nan"), Unavailable("disk full"), NotSent("taken by another")]
)
def test_a_copy_that_fails_by_itself_does_not_end_the_others(tmp_path, copies, error, capsys):
    trained, fails = copies
    fails[0] = error
    with pytest.raises(type(error), match=str(error)):
        run(tmp_path, 3)
    assert trained == [0, 1, 2]
    shown = capsys.readouterr().out
    assert "run_1" in shown and "run_2" in shown and "run_0" not in shown


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_of_copies_that_fail_in_several_ways_those_that_go_on_with_the_same_command_count(
    tmp_path, copies, order
):
    fails = copies[1]
    fails[order[0]], fails[order[1]] = NotFinite("train/loss is nan"), Unavailable("disk full")
    with pytest.raises(Unavailable, match="disk full"):
        run(tmp_path, 3)


def test_a_last_state_that_was_not_sent_is_told_of_though_another_copy_failed(
    tmp_path, copies, monkeypatch, caplog
):
    fails, one_copy = copies[1], experiment.one_copy
    fails[0] = NotFinite("train/loss is nan")

    def unsent(request, storage, number, *rest):
        storage.unsent = "the last state is not there, it is here" if number == 1 else None
        return one_copy(request, storage, number, *rest)

    monkeypatch.setattr(experiment, "one_copy", unsent)
    with pytest.raises(NotFinite):
        run(tmp_path, 2)
    assert "the last state is not there, it is here" in caplog.text


def test_a_command_that_was_asked_to_stop_says_so_though_a_copy_had_come_to_nan(
    tmp_path, copies, monkeypatch
):
    trained, fails = copies
    fails[0], one_copy = NotFinite("train/loss is nan"), experiment.one_copy

    def asked(request, storage, number, *rest):
        if number == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return one_copy(request, storage, number, *rest)

    monkeypatch.setattr(experiment, "one_copy", asked)
    assert run(tmp_path, 3) == 143 and trained == [0, 1]  # the same command goes on, with 1 and 2


def test_what_is_wrong_with_all_copies_ends_at_the_first(tmp_path, copies):
    trained, fails = copies
    fails[0] = UsageError("no such thing")
    with pytest.raises(UsageError, match="no such thing"):
        run(tmp_path, 3)
    assert trained == [0]


def test_a_run_that_another_process_has_begun_meanwhile_is_left_to_it(tmp_path, monkeypatch):
    def others(storage):
        storage.folder.mkdir(parents=True, exist_ok=True)
        (storage.folder / "hparams.json").write_text("another's")
        raise UsageError("another process trains in here")

    monkeypatch.setattr("rl.storage.storage.Storage.begin", others)
    with pytest.raises(UsageError, match="another process"):
        rl.train("ppo_identity", output_dir=tmp_path / "out", compile="graph", train_steps=256)
    assert (tmp_path / "out/run_0/hparams.json").read_text() == "another's"


def test_a_run_whose_checkpoints_cannot_be_written_does_not_begin(tmp_path):
    (tmp_path / "run_0").mkdir()
    (tmp_path / "run_0/checkpoints").write_text("mine")
    with pytest.raises(UsageError, match="checkpoints is not a folder, or a part of it is a file: choose"):
        rl.train("ppo_identity", output_dir=tmp_path, compile="graph", train_steps=256)
    assert [path.name for path in (tmp_path / "run_0").iterdir()] == ["checkpoints"]


def test_an_environment_that_ends_the_program_is_no_success(tmp_path, monkeypatch):
    def train(self, stop):
        raise SystemExit(0)

    monkeypatch.setattr(trainer.Trainer, "train", train)
    with pytest.raises(RuntimeError, match=r"something called sys.exit\(0\)"):
        run(tmp_path, 1)


def test_tensorboard_is_told_the_set_and_the_seed(tmp_path, monkeypatch):
    told = []

    def log_hparams(self, hparams):
        told.append(hparams)
        raise UsageError("enough")

    monkeypatch.setattr(trainer.Logger, "log_hparams", log_hparams)
    with pytest.raises(UsageError, match="enough"):
        run(tmp_path, 1)
    assert (told[0]["hparams"], told[0]["seed"], told[0]["gamma"]) == ("ppo_identity", 0, 0.0)


REST = "11.2 s compiling (first window), evaluating, saving"


@pytest.mark.parametrize(
    ("first_step", "rate", "steps", "time"),
    [
        (0, 2000.0, 50_000, "31.2 s: 20.0 s training at 2,000 steps/s, " + REST),
        (0, 0.25, 50_000, "31.2 s: 20.0 s training at 0.25 steps/s, " + REST),
        (40_000, None, "50,000, 10,000 of them now", "31.2 s"),  # one window
    ],
)
def test_the_summary_says_what_the_rate_is_of(first_step, rate, steps, time):
    result = Result(Path("x"), 50_000, 31.2, 20.0, rate, None, None, 0, first_step)
    row = experiment._summary(Request(None), Storage("runs/x/run_0"), result, {})
    assert (row["steps"], row["time"]) == (steps, time) and "steps/s" not in row


@pytest.mark.parametrize(
    ("returns", "shown"),
    [([0.955, 0.955], "0.955 +- 0.000 (2 episodes)"), ([-82.25, -83.75], "-83.0 +- 0.8 (2 episodes)")],
)
def test_small_returns_are_told_with_three_digits(returns, shown):
    test = Evaluation(np.array(returns), np.ones(2))
    row = experiment._summary(Request(None, test_episodes=2), Storage("runs/x/run_0"), None, {"best": test})
    assert row["return, best checkpoint"] == shown


def test_fewer_steps_than_a_run_has_made_change_nothing_of_what_it_says_it_was_trained_with(tmp_path):
    settings = {"compile": "graph", "num_envs": 2, "rollout_length": 8, "minibatches": 1, "eval_episodes": 1}
    run = rl.train("ppo_identity", output_dir=tmp_path, train_steps=64, **settings)
    files = {path: path.read_bytes() for path in run.run_dir.glob("*.json")} | {
        run.run_dir / "command.txt": (run.run_dir / "command.txt").read_bytes()
    }
    again = rl.train("ppo_identity", output_dir=tmp_path, train_steps=32, **settings)
    assert again.step == 64 and all(path.read_bytes() == before for path, before in files.items())
    assert "resumed at step 64, nothing is left to train\n" in (run.run_dir / "train.log").read_text()
