"""Places of files: a folder, `file://`, which is a folder of this machine, `ram://`, one of this process."""

from __future__ import annotations

import os
import shutil

import pytest
import tensorflow as tf

from rl.errors import UsageError
from rl.storage.place import Folder, Missing, PlaceError, Remote, read


@pytest.fixture(params=["file", "ram"])
def remote(request, tmp_path):
    """An address where nothing is."""
    return Remote(f"file://{tmp_path}/far" if request.param == "file" else f"ram://{tmp_path.name}/far")


@pytest.fixture(params=["folder", "file", "ram"])
def place(request, tmp_path):
    """A place where nothing is."""
    roots = {"file": f"file://{tmp_path}/far", "ram": f"ram://{tmp_path.name}/far"}
    return Folder(tmp_path / "far") if request.param == "folder" else Remote(roots[request.param])


@pytest.fixture
def path(tmp_path):
    """A file of this machine."""
    path = tmp_path / "here"
    path.write_bytes(b"content")
    return path


def test_a_file_goes_out_and_comes_back(place, path, tmp_path):
    assert place.names() == [] and place.size("a/b") is None
    place.put(path, "a/b")
    place.put(path, "c")
    assert (place.names(), place.names("a"), place.names(files=True)) == (["a", "c"], ["b"], ["c"])
    assert (place.size("a/b"), read(place, "a/b")) == (7, b"content")
    for _ in range(2):  # the second one over the first
        place.get("a/b", tmp_path / "deep" / "back")
    assert (tmp_path / "deep" / "back").read_bytes() == b"content"
    place.remove("a/b")
    place.remove("a/b")  # again: nothing
    assert place.names("a") == [] and read(place, "a/b") is None
    with pytest.raises(Missing):
        place.get("a/b", tmp_path / "none")
    with pytest.raises(Missing):
        place.put(tmp_path / "none", "d")
    place.remove("")
    place.remove("")
    assert place.names() == []


def test_a_file_is_replaced_whole(place, path, monkeypatch):
    """Where a file is seen while it is written, the one that is read has been renamed into its place."""
    place.put(path, "a")

    def torn(copied):
        def call(*words, **options):
            copied(*words, **options)
            raise OSError("the process died here")

        return call

    path.write_bytes(b"another content")
    with monkeypatch.context() as patch:
        patch.setattr(tf.io.gfile, "copy", torn(tf.io.gfile.copy))
        patch.setattr(shutil, "copyfile", torn(shutil.copyfile))
        with pytest.raises(PlaceError, match=f"cannot write {place.address}/a.*died here"):
            place.put(path, "a")
    assert read(place, "a") == b"content"
    place.put(path, "a")
    assert read(place, "a") == b"another content" and place.names() == ["a"]


@pytest.mark.parametrize("links", [True, False])
def test_what_a_folder_gives_stays_when_the_folder_replaces_it(tmp_path, path, monkeypatch, links):
    if not links:  # a file system without
        monkeypatch.setattr(os, "link", lambda *_: os.stat(f"{path}/below"))
    Folder(tmp_path).get("here", tmp_path / "kept")
    path.unlink()
    path.write_bytes(b"another content")
    assert (tmp_path / "kept").read_bytes() == b"content"


def test_a_place_that_cannot_be_read_is_not_taken_for_an_empty_one(remote, path, monkeypatch):
    """A run that could not read its checkpoints must not begin anew."""
    remote.put(path, "a")

    def unavailable(address):
        raise tf.errors.UnavailableError(None, None, "no answer")

    with monkeypatch.context() as patch:
        patch.setattr(tf.io.gfile, "exists", unavailable)
        for call in (remote.names, lambda: remote.size("a")):
            with pytest.raises(PlaceError, match=f"cannot read {remote.address}.* .no answer"):
                call()
    with monkeypatch.context() as patch:  # nor is a folder taken for a file
        patch.setattr(tf.io.gfile, "stat", unavailable)
        patch.setattr(tf.io.gfile, "isdir", lambda address: False)  # what it says of any failure
        with pytest.raises(PlaceError, match=f"cannot read {remote.address}/a.* .no answer"):
            remote.names(files=True)
    # TensorFlow's `listdir` itself says "not found" when it is refused what it asks first.
    monkeypatch.setattr(tf.io.gfile, "listdir", lambda folder: tf.io.gfile.GFile(f"{folder}/none").read())
    with pytest.raises(PlaceError, match="cannot read") as error:
        remote.names()
    assert not isinstance(error.value, Missing)


def test_a_writable_place_is_left_as_it_was(remote, path, tmp_path):
    Remote(f"{remote.address}/x/run_0").check_writable()
    assert not tf.io.gfile.exists(remote.address)
    remote.put(path, "a")
    remote.check_writable()
    assert remote.names() == ["a"]
    assert {each.name for each in tmp_path.iterdir()} <= {"here", "far"}


def test_what_cannot_be_written_is_one_line(path):
    for address in (f"file://{path}/x", "file:///proc/nobody/x"):
        with pytest.raises(UsageError, match=f"cannot write in {address} .*choose another") as error:
            Remote(address).check_writable()
        assert "\n" not in str(error.value)


def test_an_unknown_scheme_is_told_with_the_known_ones():
    with pytest.raises(UsageError, match=r"no file system nowhere:// here; known: file, gs, ram"):
        Remote("nowhere://x")
