"""Large memories at a remote address: their pieces are sent once, by the mirror and by buffers."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.storage import pieces
from rl.storage.checkpoint import CheckpointManager, read_manifest
from rl.storage.place import Folder, Remote
from rl.storage.storage import checkpoints_at, storage_at
from rl.storage.transfer import PIECES, by_step, get_newest, newest_step, prune, put_checkpoint


def ring(rows):
    """A memory of 1024 rows of 64 bytes of which so many have been written."""
    content = np.zeros((1024, 64), np.uint8)
    content[:rows] = np.arange(1, rows + 1)[:, None] % 251
    return {"ring": tf.Variable(content), "step": tf.Variable(np.int64(rows))}


@pytest.fixture
def small_pieces(monkeypatch):
    """Memories of 64 KiB are large, and written in pieces of 4 KiB."""
    monkeypatch.setattr(pieces, "LARGE", 1 << 16)
    monkeypatch.setattr(pieces, "PIECE", 1 << 12)


def test_pieces_of_a_memory_are_sent_once(address, machine, by_hand, small_pieces, monkeypatch):
    put, sent = Remote.put, []
    monkeypatch.setattr(Remote, "put", lambda *words: (sent.append(words[1].name), put(*words)))
    storage = storage_at(address)
    counts = []
    with storage.to_train():
        storage.begin()
        manager = CheckpointManager(storage.folder / "checkpoints", keep=1)
        for rows in (640, 700, 1000):
            manager.save(ring(rows), rows, {}, {"ring": rows})
            storage.mirror.send()
            counts.append(sum(name.startswith("piece-") for name in sent))
            sent.clear()
    assert counts == [10, 1, 6]  # those with new rows; the one that was not full as well, if it was not
    machine()
    storage = storage_at(address)
    with storage.to_train():
        variables = ring(0)
        assert CheckpointManager(storage.folder / "checkpoints").restore(variables) is not None
        np.testing.assert_array_equal(variables["ring"].numpy(), ring(1000)["ring"].numpy())
        needed = set(read_manifest(storage.folder / "checkpoints" / "step_000000001000").files)
    far = f"{address}/checkpoints"
    assert set(Remote(f"{far}/{PIECES}").names()) == {name for name in needed if name.startswith("piece-")}
    with storage_at(address).to_read():
        pass
    assert get_newest(Remote(far), machine() / "policy", pieces=False) == 1000


def test_a_checkpoint_is_carried_to_any_place_with_its_five_methods(tmp_path, small_pieces):
    manager, place = CheckpointManager(tmp_path / "here", keep=2), Folder(tmp_path / "there")
    for rows in (640, 700):
        put_checkpoint(manager.save(ring(rows), rows, {}, {"ring": rows}), place)
    assert by_step(place.names()) == ["step_000000000700", "step_000000000640"] and newest_step(place) == 700
    assert len(place.names(PIECES)) == 11  # the second shares nine of ten with the first
    assert get_newest(place, tmp_path / "back") == 700
    variables = ring(0)
    CheckpointManager(tmp_path / "back").restore(variables)
    np.testing.assert_array_equal(variables["ring"].numpy(), ring(700)["ring"].numpy())
    prune(place, {"step_000000000640"})
    assert newest_step(place) == 640 and len(place.names(PIECES)) == 10


def test_checkpoints_of_a_buffer_are_sent_as_they_are_saved(address, machine, small_pieces):
    place = f"{address}/buffers/0"
    manager = checkpoints_at(place, 1)
    assert manager.restore(ring(0)) is None
    for rows in (500, 900):
        manager.save(ring(rows), rows, {}, {"ring": rows})
    assert by_step(Remote(place).names()) == ["step_000000000900"]
    machine()
    again, variables = checkpoints_at(place, 1), ring(0)
    assert again.restore(variables) == {} and again.restored_step == 900
    np.testing.assert_array_equal(variables["ring"].numpy(), ring(900)["ring"].numpy())
    again.save(ring(100), 1000, {}, {"ring": 1100})
    assert again.latest_step() == 1000
    again.close()
    assert not list(again.directory.iterdir())
    with storage_at(address).to_train():  # the learner leaves them where they are
        pass
    assert by_step(Remote(place).names()) == ["step_000000001000"]
