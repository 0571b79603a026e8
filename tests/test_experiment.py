"""Several copies of a run, of which one comes to nothing."""

from __future__ import annotations

import numpy as np
import pytest

from rl import experiment
from rl.errors import NotFinite, Unavailable, UsageError
from rl.hparams.merge import resolve
from rl.runners import trainer
from rl.runners.evaluate import Evaluation
from rl.utils.storage import Storage


def run(folder, copies):
    return experiment.run(
        resolve("ppo_identity", ""),
        output_dir=str(folder),
        sys="local",
        seed=0,
        copies=copies,
        training=True,
        render=False,
        record_video=False,
        eval_episodes=1,
        test_episodes=1,
        command=["python", "train.py"],
        hparams_name="ppo_identity",
        overrides="",
    )


@pytest.fixture
def copies(monkeypatch):
    """Numbers of the copies that were trained; those named in `fails` raise."""
    trained, fails = [], {}

    def one_copy(plan, storage, number, stop):
        trained.append(number)
        if number in fails:
            raise fails[number]
        return [{"run": storage.address}]

    monkeypatch.setattr(experiment, "one_copy", one_copy)
    return trained, fails


@pytest.mark.parametrize("error", [NotFinite("step 64: train/loss is nan"), Unavailable("disk full")])
def test_a_copy_that_fails_by_itself_does_not_end_the_others(tmp_path, copies, error, capsys):
    trained, fails = copies
    fails[0] = error
    with pytest.raises(type(error), match=str(error)):
        run(tmp_path, 3)
    assert trained == [0, 1, 2]
    shown = capsys.readouterr().out
    assert "run_1" in shown and "run_2" in shown and "run_0" not in shown


def test_what_is_wrong_with_all_copies_ends_at_the_first(tmp_path, copies):
    trained, fails = copies
    fails[0] = UsageError("no such thing")
    with pytest.raises(UsageError, match="no such thing"):
        run(tmp_path, 3)
    assert trained == [0]


def test_an_environment_that_ends_the_program_is_no_success(tmp_path, monkeypatch):
    def train(self, stop, log_hparams):
        raise SystemExit(0)

    monkeypatch.setattr(trainer.Trainer, "train", train)
    with pytest.raises(RuntimeError, match=r"something called sys.exit\(0\)"):
        run(tmp_path, 1)


@pytest.mark.parametrize(
    ("returns", "shown"),
    [([0.955, 0.955], "0.955 +- 0.000 (2 episodes)"), ([-82.25, -83.75], "-83.0 +- 0.8 (2 episodes)")],
)
def test_small_returns_are_told_with_three_digits(returns, shown):
    test = Evaluation(np.array(returns), np.ones(2))
    row = experiment._summary(Storage("runs/x/run_0"), None, {"best": test}, 2)
    assert row["return, best checkpoint"] == shown
