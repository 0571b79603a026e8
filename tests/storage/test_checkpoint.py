"""Checkpoints: exact, whole or absent, checked, and never assigned to the wrong variables."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from faults import Faults
from filled_variables import filled, value_of

from rl.errors import UsageError
from rl.storage import pieces
from rl.storage.checkpoint import CheckpointError, CheckpointManager, read_manifest, read_single, write_single


def _bits(variable):
    value = variable.value if isinstance(variable, keras.Variable) else variable
    return value.numpy().tobytes()


def _damage(path: Path, how: str):
    data = next(each for each in path.iterdir() if ".data-" in each.name)
    if how == "flipped":
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    elif how == "truncated":
        data.write_bytes(data.read_bytes()[:-1])
    elif how == "missing":
        data.unlink()
    elif how == "no manifest":
        (path / "manifest.json").unlink()
    elif how == "torn manifest":
        manifest = path / "manifest.json"
        manifest.write_text(manifest.read_text()[:100])
    elif how == "wrong meta":
        manifest = path / "manifest.json"
        manifest.write_text(manifest.read_text().replace('"value": 2', '"value": 9'))


DAMAGES = ["flipped", "truncated", "missing", "no manifest", "torn manifest", "wrong meta"]


def _every_kind(seed):
    rng = np.random.default_rng(seed)
    odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 3.4e38], np.float32)
    numbers = rng.integers(0, 1 << 32, 1000, np.uint32)
    optimizer = keras.optimizers.Adam()
    weight = keras.Variable(rng.normal(size=(5, 3)).astype(np.float32), name="weight")
    optimizer.build([weight])
    variables = {
        "float32": tf.Variable(numbers.view(np.float32)),
        "odd": tf.Variable(odd),
        "bfloat16": tf.Variable(tf.cast(rng.normal(size=(7, 9)), tf.bfloat16)),
        "int32": tf.Variable(numbers.view(np.int32)),
        "int64": tf.Variable(rng.integers(-(1 << 62), 1 << 62, 50)),
        "bool": tf.Variable(rng.random(33) < 0.5),
        "uint8": tf.Variable(rng.integers(0, 256, (4, 8, 8, 3), np.uint8)),
        "empty": tf.Variable(np.zeros((0, 4), np.float32)),
        "a/b.c:0 (d)": tf.Variable(np.float32(rng.random())),
        "keras": weight,
    }
    return variables | {f"adam/{i}": each for i, each in enumerate(optimizer.variables)}


def test_every_dtype_comes_back_bit_for_bit(tmp_path):
    saved, restored = _every_kind(1), _every_kind(2)
    manager = CheckpointManager(tmp_path / "checkpoints")
    path = manager.save(
        saved, 12345, {"best": 1.1, "nested": {"a": [1, None, "x"]}, "by_number": {10: "a", 9: "b"}}
    )
    assert path.name == "step_000000012345"
    again = CheckpointManager(tmp_path / "checkpoints")
    assert again.restore(restored) == {
        "best": 1.1,
        "nested": {"a": [1, None, "x"]},
        "by_number": {"10": "a", "9": "b"},
    }
    assert again.restored_step == again.latest_step() == 12345
    for name in saved:
        assert _bits(saved[name]) == _bits(restored[name]), name


def test_a_large_variable_comes_back(tmp_path):
    content = np.random.default_rng(0).integers(0, 256, (25 << 20,), np.uint8)
    CheckpointManager(tmp_path).save({"replay": tf.Variable(content)}, 1, {})
    restored = {"replay": tf.Variable(np.zeros_like(content))}
    CheckpointManager(tmp_path).restore(restored)
    np.testing.assert_array_equal(restored["replay"].numpy(), content)


def test_all_of_a_checkpoint_is_on_disk_before_it_has_its_name(tmp_path, monkeypatch, disk_log):
    monkeypatch.setattr(pieces, "LARGE", 40)  # bytes
    variables = {"weights": tf.Variable([1.0, 2.0]), "ring": tf.Variable(tf.zeros([10]))}
    path = CheckpointManager(tmp_path).save(variables, 7, {}, {"ring": 10})
    temporary = tmp_path / ".ckpt-tmp-step_000000000007"
    files = {(temporary / each.name, each.stat().st_size) for each in path.iterdir()}
    assert len(files) == 4  # two of the weights, the ring's piece, the manifest
    assert set(disk_log[:-3]) == files
    assert disk_log[-3:] == [(temporary, None), (temporary, path), (tmp_path, None)]


@pytest.mark.parametrize("name", ["lr=[1,2]", "what?", "all*", "back\\slash"])
def test_a_folder_may_be_called_what_tensorflow_takes_for_a_pattern(tmp_path, name):
    manager = CheckpointManager(tmp_path / name)
    manager.save({"x": tf.Variable([1.0, 2.0])}, 7)
    found = tf.Variable([0.0, 0.0])
    manager.restore({"x": found})
    assert manager.restored_step == 7 and found.numpy().tolist() == [1.0, 2.0]


def test_an_empty_folder_has_nothing_to_restore_and_is_not_made(tmp_path):
    manager = CheckpointManager(tmp_path / "none")
    assert manager.restore(filled(0)) is None
    assert manager.latest_step() is None
    assert not (tmp_path / "none").exists()


def test_one_to_which_a_run_may_go_back_is_kept_whatever_its_step(tmp_path):
    first = 1_200_000_000_000  # one digit more than names of folders are filled up to
    manager, variables = CheckpointManager(tmp_path, keep=1), {"x": tf.Variable(1.0)}
    manager.kept = first
    for step in (first, first + 1, first + 2):
        manager.save(variables, step)
    assert manager.steps() == [first + 2, first]


def test_the_newest_are_kept(tmp_path):
    manager = CheckpointManager(tmp_path, keep=2)
    for step in (5, 10, 1_000_000_000_000, 1_000_000_000_001):
        manager.save(filled(step % 97), step)
    assert sorted(os.listdir(tmp_path)) == ["step_1000000000000", "step_1000000000001"]
    with pytest.raises(UsageError, match="at least 1"):
        CheckpointManager(tmp_path, keep=0)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, caplog, how):
    manager = CheckpointManager(tmp_path)
    manager.save(filled(1), 10, {"value": 1})
    _damage(manager.save(filled(2), 20, {"value": 2}), how)
    variables = filled(0)
    again = CheckpointManager(tmp_path)
    assert again.restore(variables) == {"value": 1}
    assert value_of(variables) == 1 and again.restored_step == 10
    warnings = [each.getMessage() for each in caplog.records]
    assert len(warnings) == 1 and "step_000000000020 is damaged" in warnings[0]


def test_all_damaged_is_a_usage_error_and_changes_nothing(tmp_path):
    manager = CheckpointManager(tmp_path)
    _damage(manager.save(filled(1), 10), "flipped")
    _damage(manager.save(filled(2), 20), "missing")
    variables = filled(7)
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(UsageError, match=r"every checkpoint in .* is damaged"):
        CheckpointManager(tmp_path).restore(variables)
    assert value_of(variables) == 7
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_damaged_later_checkpoints_do_not_crowd_out_the_resumed_run(tmp_path):
    first = CheckpointManager(tmp_path, keep=2)
    first.save(filled(1), 10)
    _damage(first.save(filled(2), 20), "flipped")
    resumed = CheckpointManager(tmp_path, keep=1)
    variables = filled(0)
    resumed.restore(variables)
    resumed.save(filled(3), 15)
    assert os.listdir(tmp_path) == ["step_000000000015"]
    CheckpointManager(tmp_path).restore(variables)
    assert value_of(variables) == 3


def test_an_intact_later_checkpoint_is_not_overtaken(tmp_path):
    CheckpointManager(tmp_path).save(filled(2), 20)
    with pytest.raises(CheckpointError, match="newer than step 10"):
        CheckpointManager(tmp_path).save(filled(1), 10)
    assert os.listdir(tmp_path) == ["step_000000000020"]


def test_variables_that_differ_are_named_and_none_is_assigned(tmp_path):
    names = {f"layer_{i}": tf.Variable(np.ones([3], np.float32)) for i in range(8)}
    CheckpointManager(tmp_path).save(names | {"same": tf.Variable(1.0), "only_saved": tf.Variable(1.0)}, 3)
    asked = {f"layer_{i}": tf.Variable(np.zeros([4], np.float32)) for i in range(8)}
    asked |= {"same": tf.Variable(0.0), "only_asked": tf.Variable(0.0)}
    with pytest.raises(UsageError) as caught:
        CheckpointManager(tmp_path).restore(asked)
    text = str(caught.value)
    assert "layer_0: float32[3] in the checkpoint, float32[4] asked for" in text
    assert "and 6 more" in text and "--output_dir" in text and "hparams.json" in text and "\n" not in text
    assert asked["same"].numpy() == 0

    wrong_type = {"same": tf.Variable(0)}
    with pytest.raises(UsageError, match=r"same: float32\[\] in the checkpoint, int32\[\] asked for"):
        CheckpointManager(tmp_path).restore(wrong_type, partial=True)
    with pytest.raises(UsageError, match="extra: not in the checkpoint"):
        CheckpointManager(tmp_path).restore({"extra": tf.Variable(0)}, partial=True)


def test_a_part_can_be_restored(tmp_path):
    CheckpointManager(tmp_path).save(filled(4) | {"replay": tf.Variable(tf.ones([9]))}, 4, {"m": 1})
    variables = filled(0)
    with pytest.raises(UsageError, match="replay: in the checkpoint only"):
        CheckpointManager(tmp_path).restore(variables)
    assert CheckpointManager(tmp_path).restore(variables, partial=True) == {"m": 1}
    assert value_of(variables) == 4


def test_the_manifest_tells_what_is_inside(tmp_path):
    path = CheckpointManager(tmp_path).save(filled(4), 4, {"m": 1})
    manifest = read_manifest(path)
    assert (manifest.step, manifest.meta) == (4, {"m": 1})
    assert manifest.variables == {"policy/kernel": ((1000,), "float32"), "step": ((), "int64")}
    assert {name: size for name, (size, _) in manifest.files.items()} == {
        each.name: each.stat().st_size for each in path.iterdir() if each.name != "manifest.json"
    }
    with pytest.raises(UsageError, match="damaged"):
        read_manifest(tmp_path / "nothing")


def test_single_is_replaced_and_read(tmp_path):
    best = tmp_path / "best"
    assert read_single(best, filled(0)) is None
    variables = filled(0)
    for value in (1, 2):
        write_single(best, filled(value), {"value": value})
        assert read_single(best, variables).meta == {"value": value}
        assert value_of(variables) == value
    assert os.listdir(tmp_path) == ["best"]
    _damage(best, "truncated")
    with pytest.raises(UsageError, match="damaged"):
        read_single(best, variables)
    assert value_of(variables) == 2


def test_single_is_found_between_the_two_renames(tmp_path):
    best = write_single(tmp_path / "best", filled(1), {"value": 1})
    best.rename(tmp_path / ".ckpt-old-best")
    variables = filled(0)
    assert read_single(best, variables).meta == {"value": 1} and value_of(variables) == 1


def test_a_reader_does_not_disturb_a_writer(tmp_path):
    """A temporary folder of a live writer, who holds the lock, stays; a dead one's goes."""
    import fcntl

    CheckpointManager(tmp_path).save(filled(1), 1)
    temporary = tmp_path / ".ckpt-tmp-step_000000000002"
    temporary.mkdir()
    lock = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        variables = filled(0)
        CheckpointManager(tmp_path).restore(variables)
        assert value_of(variables) == 1 and temporary.exists()
    finally:
        os.close(lock)
    CheckpointManager(tmp_path)
    assert not temporary.exists()


def test_other_folders_beside_the_checkpoints_are_left_alone(tmp_path):
    for name in (".tmp-mine", "old", "step_7", "notes"):
        (tmp_path / name).mkdir()
    manager = CheckpointManager(tmp_path, keep=1)
    manager.save(filled(1), 1)
    manager.save(filled(2), 2)
    assert sorted(os.listdir(tmp_path)) == [".tmp-mine", "notes", "old", "step_000000000002", "step_7"]


def test_a_full_disk_is_one_clear_error_and_the_earlier_checkpoint_stays(small_disk):
    manager = CheckpointManager(small_disk / "checkpoints", keep=1)
    manager.save(filled(1), 1)
    for size in (1 << 20, 1 << 19):  # the data do not fit
        with pytest.raises(
            CheckpointError, match=r"cannot write checkpoint .*No space left on device"
        ) as caught:
            manager.save(filled(2, size), 2)
        assert "\n" not in str(caught.value) and "{{" not in str(caught.value)
        assert os.listdir(small_disk / "checkpoints") == ["step_000000000001"]
    variables = filled(0)
    CheckpointManager(small_disk / "checkpoints").restore(variables)
    assert value_of(variables) == 1
    manager.save(filled(3), 3)
    manager.restore(variables)
    assert value_of(variables) == 3


def test_a_folder_that_can_never_be_written_is_told_from_a_full_disk(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Not a directory") as raised:
        CheckpointManager(tmp_path / "file" / "checkpoints").save(filled(1), 1)
    assert type(raised.value) is UsageError
    faults = Faults(monkeypatch, tmp_path)
    passing = (errno.ENOENT, errno.EIO, errno.EROFS, errno.EEXIST, errno.ENOTEMPTY)  # of a disk that fails
    for error, kind in ((errno.EACCES, UsageError), *((each, CheckpointError) for each in passing)):
        faults.error = error
        faults.begin(0, ever_after=True)
        with pytest.raises(UsageError, match="cannot write checkpoint") as raised:
            write_single(tmp_path / "best", filled(1))
        assert type(raised.value) is kind


def test_later_checkpoints_go_only_once_an_earlier_one_is_whole(tmp_path):
    manager = CheckpointManager(tmp_path)
    for step in (1, 2, 3):
        manager.save(filled(step), step)
    for step in (1, 2):
        _damage(tmp_path / f"step_{step:012d}", "truncated")
    with pytest.raises(UsageError, match="damaged"):
        manager.go_back(2)
    assert manager.steps() == [3, 2, 1]
    manager.save(filled(4), 4)  # 1 goes, 3 is whole
    manager.go_back(3)
    assert manager.steps() == [3, 2]
    variables = filled(0)
    manager.restore(variables)
    assert value_of(variables) == 3


def test_a_newer_format_is_refused(tmp_path):
    from rl.storage import manifest

    path = CheckpointManager(tmp_path).save(filled(1), 1)
    body = json.loads((path / "manifest.json").read_text())
    body.pop("checksum")
    body["format"] = 3
    (path / "manifest.json").write_text(json.dumps({"checksum": manifest.body_checksum(body), **body}))
    with pytest.raises(UsageError, match="newer version"):
        CheckpointManager(tmp_path).restore(filled(0))


def test_only_variables_are_saved(tmp_path):
    with pytest.raises(TypeError, match="w is a ndarray"):
        CheckpointManager(tmp_path).save({"w": np.zeros(3)}, 1)
    assert os.listdir(tmp_path) == []
