"""What a manifest may name: files of its own folder, and nothing else of the machine."""

from __future__ import annotations

import json
import os

import pytest
import tensorflow as tf

from rl.storage import manifest
from rl.storage.checkpoint import CheckpointManager
from rl.storage.manifest import MANIFEST, Damaged, check_file, load_manifest


@pytest.fixture
def checkpoint(tmp_path):
    return CheckpointManager(tmp_path).save({"weights": tf.Variable([1.0])}, 10)


def rewrite(folder, change):
    """Changes the manifest's body and gives it the checksum that fits."""
    body = json.loads((folder / MANIFEST).read_text())
    del body["checksum"]
    change(body)
    text = json.dumps({"checksum": manifest.body_checksum(body), **body})
    (folder / MANIFEST).write_text(text)


@pytest.mark.parametrize("name", ["/dev/zero", "../../other", "sub/file", "..", ""])
@pytest.mark.parametrize("where", ["files", "prefix", "pieces"])
def test_a_path_in_place_of_a_name_is_refused(checkpoint, name, where):
    def change(body):
        if where == "files":
            body["files"][name] = [0, 0]
        elif where == "prefix":
            body["prefix"] = name
        else:
            body["pieces"] = {"weights": {"rows": 1, "written": 1, "files": [name]}}

    load_manifest(checkpoint)
    rewrite(checkpoint, change)
    with pytest.raises(Damaged, match="is not the name of a file in it"):
        load_manifest(checkpoint)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "x"},
        {"files": 3},
        {"files": {"state": [1]}},
        {"prefix": 3},
        {"variables": [1]},
        {"pieces": [1]},
        {"pieces": {"weights": {"files": []}}},
        {"step": "zzz"},
        {"step": float("inf")},
        {"meta": 3},
        {"prefix": None, "files": None},
    ],
)
def test_contents_of_another_kind_are_damage(checkpoint, change):
    rewrite(checkpoint, lambda body: body.update(change))
    with pytest.raises(Damaged, match=r"manifest\.json is unreadable"):
        load_manifest(checkpoint)


@pytest.mark.parametrize("text", ["[" * 200_000, "3", '{"checksum": 1', "{}"])
def test_what_is_no_manifest_is_damage(checkpoint, text):
    (checkpoint / MANIFEST).write_text(text)
    with pytest.raises(Damaged, match=r"manifest\.json is unreadable"):
        load_manifest(checkpoint)


def test_a_device_in_place_of_a_file_is_not_read(checkpoint, tmp_path):
    os.symlink("/dev/zero", tmp_path / "endless")
    with pytest.raises(Damaged, match="endless is no file"):
        check_file(tmp_path / "endless", 0, 0)
    (checkpoint / MANIFEST).unlink()
    os.symlink("/dev/zero", checkpoint / MANIFEST)
    with pytest.raises(Damaged, match=r"manifest\.json is not there"):
        load_manifest(checkpoint)
