"""What becomes of file operations that fail: once, for good, or until a disk has room again."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os

import numpy as np
import pytest
import tensorflow as tf
from faults import Faults

from rl.errors import Unavailable, UsageError
from rl.storage import files
from rl.storage.checkpoint import CheckpointManager
from rl.storage.files import ensure_writable_dir, failure, patiently, set_aside, write_text_atomic


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0))


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


def test_a_file_name_that_is_no_text_is_read_again_from_json(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    files.write_json_atomic(tmp_path / "file", {"name": name})
    assert files.load_json(files.read_text(tmp_path / "file")) == {"name": name}


def test_an_output_takes_its_place_whole_and_what_killed_ones_left_goes(tmp_path):
    target = tmp_path / "out"
    left = ".ckpt-tmp-out-killed", ".ckpt-old-out", ".ckpt-tmp-other-1"
    for name in (*left, ".ckpt-tmp-out-alive"):
        (tmp_path / name).mkdir()
    with files.folder_lock(tmp_path / ".ckpt-tmp-out-alive", wait=True):
        with pytest.raises(KeyError), files.new_output(target) as folder:
            raise KeyError
        assert not folder.exists() and not target.exists()
        with files.new_output(target) as folder:
            (folder / "policy").write_text("new")
            files.commit_folder(folder, target)
    assert sorted(os.listdir(tmp_path)) == [".ckpt-tmp-other-1", ".ckpt-tmp-out-alive", "out"]
    assert os.listdir(target) == ["policy"]
    said = pytest.raises(UsageError, match=r"cannot write .*out \(Permission denied\): name another --to")
    with said, files.new_output(target):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def test_a_text_is_on_disk_before_it_has_its_name_and_the_name_after_that(tmp_path, disk_log):
    write_text_atomic(tmp_path / "file", "text")
    temporary = tmp_path / f".tmp-file-{os.getpid()}"
    assert disk_log == [(temporary, 4), (temporary, tmp_path / "file"), (tmp_path, None)]


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
