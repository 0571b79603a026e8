"""What a run keeps when writing fails: its best policy, what it has learned, its rows."""

from __future__ import annotations

import contextlib
import errno
import io
import re
import sys

import numpy as np
import pytest
from marked import rest
from small_runs import TINY, trainer_of
from stop_after import StopAfter

from rl.errors import Unavailable
from rl.hparams.merge import resolve
from rl.report.logger import MetricsTable
from rl.runners import in_graph, trainer, window
from rl.runners.evaluate import Evaluation, Evaluator
from rl.storage import files
from rl.storage.checkpoint import CheckpointError, CheckpointManager, read_manifest
from rl.workers.plan import Workers

TINY = TINY | {"train_steps": 64}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0))


@pytest.fixture
def evaluations(monkeypatch):
    """Says what the evaluations find, one mean after the other."""

    def give(*means):
        left = iter(means)
        monkeypatch.setattr(Evaluator, "run", lambda self, *_: Evaluation(np.full(2, next(left)), np.ones(2)))

    return give


def train(run_dir, **overrides):
    hparams = resolve("ppo_identity", TINY | overrides)
    with contextlib.closing(trainer_of(hparams, run_dir)) as one:
        return one.train(StopAfter())


def test_a_best_policy_that_was_not_written_is_not_the_best(tmp_path, evaluations, monkeypatch):
    evaluations(9.0, 5.0, 4.0, 3.0)
    write, failures = CheckpointManager.save_best, iter([1, 1, 1])

    def failing(*args):
        if next(failures, None):
            raise CheckpointError("cannot write: No space left on device")
        return write(*args)

    monkeypatch.setattr(CheckpointManager, "save_best", failing)
    assert train(tmp_path).best_return == 5.0
    assert read_manifest(tmp_path / "checkpoints/best").meta["return_mean"] == 5.0


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_screen_says_whose_return_it_is_and_where_a_finished_run_is(
    tmp_path, evaluations, capsys, monkeypatch
):
    evaluations(1.0, 7.0)
    assert train(tmp_path, train_steps=32, max_episode_steps=4).first_step == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert re.search(r"32/32 steps .* train return \d\.\d{3}  eval return 7\.000", line), line
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdout", Terminal())
    assert train(tmp_path, train_steps=32, max_episode_steps=4).first_step == 32
    shown = sys.stdout.getvalue()
    assert "32/32 steps" in shown and " 0/32" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("file", ["manifest.json", "*.data-*"])
def test_a_damaged_best_policy_costs_a_line_and_not_the_resume(tmp_path, evaluations, caplog, file):
    evaluations(9.0, 5.0)
    train(tmp_path, train_steps=32)
    (path,) = (tmp_path / "checkpoints/best").glob(file)
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)
    evaluations(4.0, 6.0)
    result = train(tmp_path)
    assert (result.step, result.best_return) == (64, 6.0)
    assert "damaged" in caplog.text and "best.old" in caplog.text
    assert (tmp_path / "checkpoints/best.old/manifest.json").exists()


def test_rows_that_cannot_be_written_end_the_run_after_a_checkpoint(tmp_path, evaluations, monkeypatch):
    evaluations(1.0, 1.0, 1.0, 1.0, 1.0)  # of step 48 twice
    append = MetricsTable.append

    def full(self, step, cells):
        if step == 48:
            raise Unavailable(f"cannot write {self.path}: {errno.ENOSPC}")
        append(self, step, cells)

    monkeypatch.setattr(MetricsTable, "append", full)
    with pytest.raises(Unavailable, match="cannot write"):
        train(tmp_path)
    assert CheckpointManager(tmp_path / "checkpoints").latest_step() == 48
    monkeypatch.setattr(MetricsTable, "append", append)
    assert train(tmp_path).step == 64


@pytest.mark.parametrize(
    ("slow", "saved"),  # the first of which fails; 1e9: no iteration is long, however busy the machine is
    [(1e9, [48, 80, 112]), *rest((-1.0, [16, 48, 64, 80, 96, 112]))],  # -1.0: as where iterations are long
)
def test_a_periodic_checkpoint_that_failed_is_soon_tried_again_and_not_at_once(
    tmp_path, monkeypatch, slow, saved
):
    steps, save, seconds = [], CheckpointManager.save, [0.0]

    def failing(self, variables, step, *words):
        steps.append(step)
        if len(steps) == 1:
            raise CheckpointError("cannot write: No space left on device")
        return save(self, variables, step, *words)

    def evaluation(*_):
        seconds[0] += 40.0
        return Evaluation(np.ones(2), np.ones(2))

    monkeypatch.setattr(CheckpointManager, "save", failing)
    monkeypatch.setattr(Evaluator, "run", evaluation)
    monkeypatch.setattr(trainer, "SLOW", slow)
    monkeypatch.setattr(trainer.time, "monotonic", lambda: seconds[0])
    train(tmp_path, checkpoint_period=100, train_steps=112)
    assert steps == saved
    assert (tmp_path / "train.log").read_text().count("No space left") == 1


@pytest.mark.slow
def test_a_run_of_long_iterations_is_saved_within_its_windows_too(tmp_path, monkeypatch):
    """It is not waited for when it must stop, so little may be lost."""
    steps, save = [], CheckpointManager.save

    def noted(self, variables, step, *words):
        steps.append(step)
        return save(self, variables, step, *words)

    monkeypatch.setattr(CheckpointManager, "save", noted)
    straight, often = tmp_path / "straight", tmp_path / "often"
    train(straight, log_period=32, checkpoint_period=600)
    assert steps == [64]
    monkeypatch.setattr(in_graph, "SHORT", 0.0)  # each call makes one iteration, as where these are long
    monkeypatch.setattr(window, "LOOK", 0.0)
    monkeypatch.setattr(trainer, "SLOW", 0.0)
    monkeypatch.setattr(trainer, "SHARE", 1e9)
    train(often, log_period=32, checkpoint_period=600)
    assert steps == [64, 32, 48, 64]  # none after the first, which compiles and has taken no time
    assert (often / "metrics.csv").read_bytes() == (straight / "metrics.csv").read_bytes()
    assert read_manifest(often / "checkpoints/step_000000000048").meta["window"]["iterations"] == 1


@pytest.mark.parametrize(
    ("workers", "overrides", "limit"),
    [
        (None, {}, None),
        (None, {"hang_timeout": 60.0}, 60.0),
        (Workers(1), {}, 1800.0),
        (Workers(1), {"worker_timeout": 1000.0}, 3000.0),
        (Workers(1), {"hang_timeout": 60.0}, 60.0),
    ],
)
def test_a_run_with_workers_that_hangs_does_not_do_so_for_ever(
    tmp_path, monkeypatch, workers, overrides, limit
):
    build = trainer.build_runner
    monkeypatch.setattr(trainer, "build_runner", lambda hparams, seed, *_: build(hparams, seed))
    given = []
    monkeypatch.setattr(
        trainer, "Watch", lambda _, step, limit: given.append(limit) or contextlib.nullcontext()
    )
    hparams = resolve("ppo_identity", TINY | overrides)
    with contextlib.closing(trainer_of(hparams, tmp_path, workers=workers)) as one:
        one.train(StopAfter(0))
    assert given == [limit]
