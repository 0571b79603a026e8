"""Places that are not on this machine."""

from __future__ import annotations

import tempfile

import pytest


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes this process stand on another machine: one with an empty folder for what is temporary."""
    count = iter(range(100))

    def another():
        folder = tmp_path / f"machine_{next(count)}"
        folder.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        return folder

    another()
    return another


@pytest.fixture
def address(tmp_path, machine):
    """Of a run that is not there yet."""
    return f"file://{tmp_path}/far/run_0"


@pytest.fixture
def store(tmp_path, machine, monkeypatch):
    """Of a run in something like an object store: files appear whole, and folders need not be made."""
    import tensorflow as tf

    from rl.storage import place

    gfile = tf.io.gfile
    copied, removed = gfile.copy, gfile.remove

    def copy(source, target, overwrite=False):
        if target.startswith("ram://"):
            gfile.makedirs(target.rpartition("/")[0])
            if gfile.exists(target):
                removed(target)  # `ram://` itself would write behind what is there
        copied(source, target, overwrite=overwrite)

    monkeypatch.setattr(gfile, "copy", copy)
    monkeypatch.setattr(place, "_FILE_SYSTEMS", {"file"})
    return f"ram://{tmp_path.name}/far/run_0"


@pytest.fixture
def by_hand(monkeypatch):
    """Nothing is sent but at the end of `to_train`."""
    from rl.storage import mirror
    from rl.storage.mirror import Mirror

    monkeypatch.setattr(Mirror, "_work", lambda self: None)
    monkeypatch.setattr(mirror, "TRIES", ())
