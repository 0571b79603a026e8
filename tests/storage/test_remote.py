"""Files at remote addresses: `file://` is a folder of this machine, `ram://` one of this process."""

from __future__ import annotations

import pytest
import tensorflow as tf

from rl.errors import UsageError
from rl.storage import remote
from rl.storage.address import join


@pytest.fixture(params=["file", "ram"])
def place(request, tmp_path):
    """An address where nothing is."""
    return f"file://{tmp_path}/far" if request.param == "file" else f"ram://{tmp_path.name}/far"


@pytest.fixture
def path(tmp_path):
    """A file of this machine."""
    path = tmp_path / "here"
    path.write_bytes(b"content")
    return path


def test_a_file_goes_out_and_comes_back(place, path, tmp_path):
    address = join(place, "a", "b")
    remote.put(path, address)
    assert remote.names(place) == ["a"] and remote.names(join(place, "a")) == ["b"]
    assert (remote.size(address), remote.read(address)) == (7, b"content")
    remote.get(address, tmp_path / "deep" / "back")
    assert (tmp_path / "deep" / "back").read_bytes() == b"content"
    remote.remove(address)
    remote.remove(address)  # again: nothing
    assert remote.names(join(place, "a")) == []
    with pytest.raises(remote.Missing):
        remote.read(address)
    with pytest.raises(remote.Missing):
        remote.get(address, tmp_path / "none")
    remote.remove_folder(place)
    remote.remove_folder(place)
    assert remote.names(place) == []


def test_a_file_is_replaced_whole(place, path, monkeypatch):
    """Where a file is seen while it is written, the one that is read has been renamed into its place."""
    address = join(place, "a")
    remote.put(path, address)
    copied = tf.io.gfile.copy

    def torn(source, target, overwrite=False):
        copied(source, target, overwrite=overwrite)
        raise OSError("the process died here")

    path.write_bytes(b"another content")
    monkeypatch.setattr(tf.io.gfile, "copy", torn)
    with pytest.raises(remote.RemoteError, match=f"cannot write {address}.*died here"):
        remote.put(path, address)
    assert remote.read(address) == b"content"
    monkeypatch.undo()
    remote.put(path, address)
    assert remote.read(address) == b"another content" and remote.names(place) == ["a"]


def test_a_place_that_cannot_be_read_is_not_taken_for_an_empty_one(place, path, monkeypatch):
    """A run that could not read its checkpoints must not begin anew."""
    remote.put(path, join(place, "a"))

    def unavailable(address):
        raise tf.errors.UnavailableError(None, None, "no answer")

    with monkeypatch.context() as patch:
        patch.setattr(tf.io.gfile, "exists", unavailable)
        with pytest.raises(remote.RemoteError, match=f"cannot read {place} .no answer"):
            remote.names(place)
    # TensorFlow's `listdir` itself says "not found" when it is refused what it asks first.
    monkeypatch.setattr(tf.io.gfile, "listdir", lambda folder: tf.io.gfile.GFile(f"{folder}/none").read())
    with pytest.raises(remote.RemoteError, match="cannot read") as error:
        remote.names(place)
    assert not isinstance(error.value, remote.Missing)


def test_a_writable_place_is_left_as_it_was(place, path, tmp_path):
    remote.check_writable(join(place, "x", "run_0"))
    assert not remote.exists(place)
    remote.put(path, join(place, "a"))
    remote.check_writable(place)
    assert remote.names(place) == ["a"]
    assert {each.name for each in tmp_path.iterdir()} <= {"here", "far"}


def test_what_cannot_be_written_is_one_line(path):
    for place in (f"file://{path}/x", "file:///proc/nobody/x"):
        with pytest.raises(UsageError, match=f"cannot write in {place} .*choose another") as error:
            remote.check_writable(place)
        assert "\n" not in str(error.value)


def test_an_unknown_scheme_is_told_with_the_known_ones():
    with pytest.raises(UsageError, match=r"no file system nowhere:// here; known: file, gs, ram"):
        remote.check_scheme("nowhere://x")
