"""What becomes of file operations that fail: once, for good, or until a disk has room again."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from faults import Faults

from rl.errors import Unavailable, UsageError
from rl.report.logger import Logger
from rl.report.versions import write_run_files
from rl.storage import files
from rl.storage.checkpoint import CheckpointManager, read_single, write_single
from rl.storage.files import ensure_writable_dir, failure, patiently, set_aside, write_text_atomic


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0))


def life(folder, faults, at):
    """What a run does with files, begun and resumed; what it leaves to be compared."""
    faults.begin(at)
    weights = {"weights": tf.Variable([1.0, 2.0])}
    run = ensure_writable_dir(folder)
    write_run_files(run, {"lr": 1.0}, "python train.py")
    with Logger(run) as logger:
        for step in (10, 20):
            logger.log(step, {"loss": step / 2})
            logger.flush()
            manager = CheckpointManager(run / "checkpoints", keep=1)
            patiently(lambda manager=manager, step=step: manager.save(weights, step))
            weights["weights"].assign_add([1.0, 1.0])
        patiently(lambda: write_single(run / "checkpoints/best", weights))
    restored, best = {"weights": tf.Variable([0.0, 0.0])}, {"weights": tf.Variable([0.0, 0.0])}
    manager = CheckpointManager(run / "checkpoints", keep=1)
    manager.restore(restored)
    read_single(run / "checkpoints/best", best)
    with Logger(run, resume_step=manager.restored_step) as logger:
        logger.log(30, {"loss": 15.0, "more": 1.0})
    done = faults.count
    faults.begin(-1)
    return done, {
        "restored": (manager.restored_step, restored["weights"].numpy().tolist()),
        "best": best["weights"].numpy().tolist(),
        "metrics": (run / "metrics.csv").read_text(),
        "hparams": json.loads((run / "hparams.json").read_text()),
        "commands": len((run / "command.txt").read_text().splitlines()),
    }


def test_a_failure_of_any_one_file_operation_is_tried_again(tmp_path, monkeypatch):
    faults = Faults(monkeypatch, tmp_path)
    operations, undisturbed = life(tmp_path / "undisturbed", faults, -1)
    assert undisturbed["restored"] == (20, [2.0, 3.0]) and undisturbed["best"] == [3.0, 4.0]
    assert operations > 100
    for at in range(1, operations + 1, 3):  # tests/test_failing_files.py takes all, of whole commands
        assert life(tmp_path / str(at), faults, at)[1] == undisturbed, f"operation {at}"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errno.ENOSPC, Unavailable),
        (errno.EIO, Unavailable),
        (errno.ESTALE, Unavailable),
        (errno.EMFILE, Unavailable),
        (errno.EACCES, UsageError),
        (errno.EROFS, UsageError),
        (errno.ENOTDIR, UsageError),
        (errno.ENAMETOOLONG, UsageError),
    ],
)
def test_what_may_pass_is_told_from_what_stays(tmp_path, monkeypatch, error, kind):
    faults = Faults(monkeypatch, tmp_path)
    faults.error = error
    for write in (ensure_writable_dir, lambda path: write_text_atomic(path / "file", "text")):
        faults.begin(0, ever_after=True)
        with pytest.raises(UsageError) as raised:
            write(tmp_path)
        assert type(raised.value) is kind
    assert type(failure("text", OSError(error, "why"))) is kind


def test_a_checkpoint_that_cannot_be_read_now_is_neither_damaged_nor_removed(tmp_path, monkeypatch, caplog):
    weights = {"weights": tf.Variable([1.0, 2.0])}
    manager = CheckpointManager(tmp_path, keep=2)
    for step in (10, 20):
        manager.save(weights, step)
    newest = tmp_path / "step_000000000020"
    before = {path.name: path.read_bytes() for path in newest.iterdir()}
    faults = Faults(monkeypatch, newest)
    later = CheckpointManager(tmp_path, keep=2)
    for at in range(1, 4):
        faults.begin(at, ever_after=True)
        with pytest.raises(Unavailable, match=r"cannot read .*step_000000000020"):
            later.restore(weights)
    faults.begin(-1)
    assert "damaged" not in caplog.text
    assert {path.name: path.read_bytes() for path in newest.iterdir()} == before
    later.restore(weights)
    assert later.restored_step == 20


def test_what_may_not_pass_is_tried_once():
    calls = itertools.count()

    def call():
        next(calls)
        raise PermissionError(errno.EACCES, "no")

    with pytest.raises(PermissionError):
        patiently(call)
    assert next(calls) == 1


def test_what_is_set_aside_never_replaces_what_was(tmp_path, caplog):
    for text in "abc":
        (tmp_path / "file").write_text(text)
        set_aside(tmp_path / "file")
    kept = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert kept == {"file.old": "a", "file.old2": "b", "file.old3": "c"}
    assert "is kept as file.old2" in caplog.text


def test_rows_of_a_run_without_checkpoints_are_kept_beside_the_new_ones(tmp_path):
    with Logger(tmp_path) as logger:
        logger.log(10, {"loss": 0.5})
    with Logger(tmp_path) as logger:
        logger.log(10, {"loss": 0.25})
    assert (tmp_path / "metrics.csv.old").read_text() == "step,loss\n10,0.5\n"
    assert (tmp_path / "metrics.csv").read_text() == "step,loss\n10,0.25\n"


def test_rows_after_a_damaged_one_are_kept_in_a_copy(tmp_path):
    with Logger(tmp_path) as logger:
        for step in (10, 20, 30):
            logger.log(step, {"loss": 0.5})
    path = Path(tmp_path / "metrics.csv")
    spoilt = path.read_bytes().replace(b"20,0.5", b"\0\0,0.5")
    path.write_bytes(spoilt)
    Logger(tmp_path, resume_step=30).close()
    assert path.read_text() == "step,loss\n10,0.5\n"
    assert (tmp_path / "metrics.csv.old").read_bytes() == spoilt


def test_floats_of_weights_come_back_after_every_kind_of_failure_of_tensorflow(tmp_path, monkeypatch):
    weights = {"weights": tf.Variable(np.arange(3.0))}
    manager = CheckpointManager(tmp_path)
    manager.save(weights, 10)
    read = tf.train.Checkpoint.read
    failures = iter([tf.errors.UnknownError(None, None, "disk"), tf.errors.AbortedError(None, None, "busy")])

    def failing(*args, **options):
        for error in failures:
            raise error
        return read(*args, **options)

    monkeypatch.setattr(tf.train.Checkpoint, "read", failing)
    weights["weights"].assign(np.zeros(3))
    CheckpointManager(tmp_path).restore(weights)
    assert weights["weights"].numpy().tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_lock_that_cannot_be_asked_for_is_not_held(tmp_path, monkeypatch, number):
    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0))
    asked, flock = [], fcntl.flock

    def failing(descriptor, operation):
        asked.append(operation)
        if len(asked) <= failures:
            raise OSError(number, os.strerror(number))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", failing)
    failures = 10**9
    with pytest.raises(Unavailable, match=f"cannot lock .*{os.strerror(number)}"):
        files.held_alone(tmp_path, "another trains there", 0.0).__enter__()
    asked.clear()
    failures = 1
    with (
        files.held_alone(tmp_path, "another trains there", 0.0),
        pytest.raises(UsageError, match="another trains there"),
        files.held_alone(tmp_path, "another trains there", 0.0),
    ):
        raise AssertionError("two hold it")


def test_on_a_file_system_without_locks_nothing_is_held(tmp_path, monkeypatch):
    def none(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    with files.held_alone(tmp_path, "", 0.0), files.held_alone(tmp_path, "", 0.0):
        pass
