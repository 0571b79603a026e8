"""Runs whose updates come to NaN: they go back to a checkpoint that was healthy, more slowly, and give up."""

from __future__ import annotations

import contextlib
import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
from small_runs import trainer_of
from stop_after import StopAfter

from rl.agents.algos.ppo import PPO
from rl.errors import NotFinite
from rl.experiment import train_one
from rl.hparams.merge import resolve
from rl.request import Request
from rl.runners.trainer import Trainer
from rl.storage.checkpoint import CheckpointManager
from rl.storage.storage import Storage

# One update an iteration, four a window; a checkpoint after each, of which one is kept.
TINY = {
    "compile": "graph", "num_envs": 2, "rollout_length": 8, "minibatches": 1, "epochs": 1, "lr": 0.01,
    "log_period": 64, "train_steps": 640, "eval_period": 0, "checkpoint_period": 0, "keep_checkpoints": 1,
    "nan_patience": 6, "nan_max_rollbacks": 1,
}  # fmt: skip


@pytest.fixture
def fragile(monkeypatch):
    """Says from which update on PPO's value loss is NaN while its learning rate is above a limit."""
    loss = PPO.loss

    def make(update, limit):
        def wrong(self, batch, seed):
            losses, metrics, priorities = loss(self, batch, seed)
            late = tf.convert_to_tensor(self.optimizers["network"].iterations) >= update
            bad = tf.logical_and(late, tf.convert_to_tensor(self.optimizers["network"].learning_rate) > limit)
            nan = tf.where(bad, np.nan, 0.0)
            return losses + nan, metrics | {"value_loss": metrics["value_loss"] + nan}, priorities

        monkeypatch.setattr(PPO, "loss", wrong)

    return make


def train(run_dir, **overrides):
    hparams = resolve("ppo_identity", TINY | overrides)
    request = Request(hparams, seed=0, name="test", eval_episodes=1)
    storage = Storage(run_dir)
    with storage.to_train():
        return train_one(request, storage, StopAfter())


def state(run_dir, **overrides):
    with contextlib.closing(trainer_of(resolve("ppo_identity", TINY | overrides), run_dir)) as trainer:
        found = {name: np.array(each.numpy()) for name, each in trainer.runner.variables.items()}
        return found | {"guard": trainer.agent.guard.saved()}


@pytest.mark.slow
def test_a_run_in_trouble_goes_back_slower_and_goes_on_to_the_bit_when_killed(tmp_path, fragile, monkeypatch):
    fragile(13, 0.006)  # within the fourth window
    gone_back = Trainer.gone_back.__func__

    def and_copied(cls, request, storage, trouble):
        found = gone_back(cls, request, storage, trouble)
        # That of step 256 was written when three updates had been left out, and no look found 192's proven.
        assert CheckpointManager(storage.folder / "checkpoints").steps() == [trouble.back_to] == [128]
        shutil.copytree(tmp_path / "run", tmp_path / "killed")
        return found

    monkeypatch.setattr(Trainer, "gone_back", classmethod(and_copied))
    result = train(tmp_path / "run")
    assert result.step == 640 and result.first_step == 0 and result.exit_code == 0
    rows = [line.split(",") for line in (tmp_path / "run/metrics.csv").read_text().splitlines()]
    assert [row[0] for row in rows[1:]] == [str(64 * i) for i in range(1, 11)]
    assert "train/skipped_updates" not in rows[0]  # those of before were cut
    rate = rows[0].index("train/learning_rate")
    assert [float(row[rate]) for row in rows[2:4]] == pytest.approx([0.01, 0.005])
    log = (tmp_path / "run/train.log").read_text()
    assert "step 256: updates left out: 3; value_loss, in the loss of network was NaN" in log
    assert "Going back to the checkpoint of step 128, with learning rates 0.5 times" in log

    monkeypatch.setattr(Trainer, "gone_back", classmethod(gone_back))
    whole = state(tmp_path / "run")
    assert whole["guard"]["rollbacks"] == 1 and whole["guard"]["lr_scale"] == 0.5
    train(tmp_path / "killed")
    again = state(tmp_path / "killed")
    assert all(np.array_equal(again[name], each) for name, each in whole.items())
    killed, run = ((tmp_path / name / "metrics.csv").read_bytes() for name in ("killed", "run"))
    assert killed == run


@pytest.mark.slow
def test_a_run_gives_up_where_going_back_does_not_help(tmp_path, fragile):
    fragile(13, 0.0)
    with pytest.raises(NotFinite, match="after rollback 1 of 1, the checkpoint of step 256 is kept"):
        train(tmp_path / "run")
    with pytest.raises(NotFinite, match=r"6 updates in a row .* after rollback 1 of 1"):
        train(tmp_path / "run")  # and does not begin anew


@pytest.mark.slow
def test_a_run_without_a_checkpoint_ends(tmp_path, fragile):
    fragile(1, 0.0)
    with pytest.raises(NotFinite, match="there is no checkpoint"):
        train(tmp_path / "run", checkpoint_period=1e6)


@pytest.mark.slow
def test_a_checkpoint_of_an_earlier_version_knows_of_no_trouble(tmp_path, monkeypatch):
    save = CheckpointManager.save

    def as_before(self, variables, step, meta, appended):
        meta = {key: each for key, each in meta.items() if key not in ("guard", "healthy")}
        return save(self, variables, step, meta, appended)

    monkeypatch.setattr(CheckpointManager, "save", as_before)
    train(tmp_path / "run", train_steps=128)
    monkeypatch.setattr(CheckpointManager, "save", save)
    assert train(tmp_path / "run", train_steps=256).step == 256
    manifest = json.loads(next((tmp_path / "run/checkpoints").glob("step_*256/manifest.json")).read_text())
    assert manifest["meta"]["healthy"] == 192 and manifest["meta"]["guard"]["rollbacks"] == 0
