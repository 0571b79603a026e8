"""Large rings in checkpoints: whole in each, though only what changed is written."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

from rl.storage import pieces
from rl.storage.checkpoint import CheckpointError, CheckpointManager

LENGTH, WIDTH, ROWS = 50, 4, 8  # of the ring, of a row in bytes, of a piece


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(pieces, "LARGE", LENGTH * WIDTH)
    monkeypatch.setattr(pieces, "PIECE", ROWS * WIDTH + 1)


class Ring:
    """A large ring beside small variables, in which row i holds the number of its last write."""

    def __init__(self):
        self.data = tf.Variable(np.zeros((LENGTH, WIDTH), np.uint8))
        self.variables = {"data": self.data, "small": tf.Variable(0.0), "count": tf.Variable(np.int64(0))}

    @property
    def written(self):
        return int(self.variables["count"].numpy())

    def append(self, count):
        for i in range(self.written, self.written + count):
            self.data[i % LENGTH].assign(np.full(WIDTH, i % 251 + 1, np.uint8))
        self.variables["count"].assign_add(count)
        self.variables["small"].assign(self.written / 2)

    def save(self, manager):
        return manager.save(self.variables, self.written, None, {"data": self.written})


def files_of(path):
    """Inode and content of the pieces in a checkpoint."""
    return {
        os.stat(each).st_ino: each.read_bytes() for each in path.iterdir() if each.name.startswith("piece-")
    }


def assert_restores(directory, ring):
    other = Ring()
    other.data.assign(np.full((LENGTH, WIDTH), 255, np.uint8))  # what was never written is 0 again
    CheckpointManager(directory).restore(other.variables)
    for name, variable in ring.variables.items():
        np.testing.assert_array_equal(other.variables[name].numpy(), variable.numpy())


@pytest.mark.parametrize("steps", [[5] * 15, [1, 7, 8, 16, 30, 49, 50, 51, 3], [60, 1, 1, 120, 8, 8]])
def test_every_checkpoint_holds_the_whole_ring(tmp_path, steps):
    ring, manager = Ring(), CheckpointManager(tmp_path, keep=2)
    for step in steps:
        ring.append(step)
        ring.save(manager)
        assert_restores(tmp_path, ring)
    assert len(list(tmp_path.iterdir())) == 2


def test_pieces_without_new_rows_are_the_files_of_the_checkpoint_before(tmp_path):
    ring, manager = Ring(), CheckpointManager(tmp_path)
    ring.append(60)  # around the ring once: the next row is 10
    before = files_of(ring.save(manager))
    ring.append(15)  # rows 10 to 24: of pieces 8-15, 16-23 and 24-31
    after = files_of(ring.save(manager))
    assert len(before) == len(after) == 7 and len(before.keys() & after.keys()) == 4
    ring.append(30)  # rows 25 to 49 and 0 to 4: pieces 24-31 to 48-49, and 0-7
    assert len(files_of(ring.save(manager)).keys() & after.keys()) == 2


def test_rows_never_written_take_no_room(tmp_path):
    ring, manager = Ring(), CheckpointManager(tmp_path)
    assert files_of(ring.save(manager)) == {}
    ring.append(9)
    assert len(files_of(ring.save(manager))) == 2
    assert_restores(tmp_path, ring)


def test_a_restored_run_goes_on_linking(tmp_path):
    ring = Ring()
    ring.append(50)
    before = files_of(ring.save(CheckpointManager(tmp_path)))
    manager, resumed = CheckpointManager(tmp_path), Ring()
    manager.restore(resumed.variables)
    resumed.append(1)
    after = files_of(resumed.save(manager))
    assert len(before.keys() & after.keys()) == 6
    assert_restores(tmp_path, resumed)


def test_older_checkpoints_keep_what_they_held(tmp_path):
    ring, manager = Ring(), CheckpointManager(tmp_path)
    ring.append(30)
    path, content = ring.save(manager), ring.data.numpy()
    ring.append(40)
    newest = ring.save(manager)
    next(
        each for each in newest.iterdir() if each.name.startswith("state-") and ".data" in each.name
    ).unlink()
    other = Ring()
    CheckpointManager(tmp_path).restore(other.variables)
    np.testing.assert_array_equal(other.data.numpy(), content)
    assert path.exists()


@pytest.mark.parametrize("damage", ["flip", "cut", "remove"])
def test_a_damaged_piece_is_found(tmp_path, damage):
    ring, manager = Ring(), CheckpointManager(tmp_path)
    ring.append(20)
    ring.save(manager)
    expected = ring.data.numpy()
    ring.append(25)  # the piece of rows 24 to 31 is new
    fresh = files_of(ring.save(manager))
    path = tmp_path / "step_000000000045"
    shared = {os.stat(each).st_ino for each in (tmp_path / "step_000000000020").iterdir()}
    victim = next(each for each in path.iterdir() if os.stat(each).st_ino in fresh.keys() - shared)
    content = bytearray(victim.read_bytes())
    if damage == "flip":
        content[3] ^= 1
        victim.write_bytes(content)
    elif damage == "cut":
        victim.write_bytes(content[:-1])
    else:
        victim.unlink()
    other = Ring()
    CheckpointManager(tmp_path).restore(other.variables)
    np.testing.assert_array_equal(other.data.numpy(), expected)


def test_without_hard_links_everything_is_written(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)
    ring, manager = Ring(), CheckpointManager(tmp_path)
    for count in (30, 5):
        ring.append(count)
        ring.save(manager)
    assert_restores(tmp_path, ring)


def test_a_full_disk_is_one_clear_error_and_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    ring, manager = Ring(), CheckpointManager(tmp_path)
    ring.append(20)
    ring.save(manager)
    expected = ring.data.numpy()
    ring.append(10)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pieces, "_write", full)
        with pytest.raises(CheckpointError, match="No space left"):
            ring.save(manager)
    assert [each.name for each in tmp_path.iterdir()] == ["step_000000000020"]
    other = Ring()
    CheckpointManager(tmp_path).restore(other.variables)
    np.testing.assert_array_equal(other.data.numpy(), expected)


def test_small_rings_are_written_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "LARGE", LENGTH * WIDTH + 1)
    ring = Ring()
    ring.append(10)
    assert files_of(ring.save(CheckpointManager(tmp_path))) == {}
    assert_restores(tmp_path, ring)
