"""Checkpoints: exact, whole or absent, checked, and never assigned to the wrong variables."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from rl.errors import UsageError
from rl.utils.checkpoint import CheckpointError, CheckpointManager, read_manifest, read_single, write_single


def _filled(value, size=1000):
    return {
        "policy/kernel": tf.Variable(np.full([size], value, np.float32)),
        "step": tf.Variable(np.int64(value)),
    }


def _value(variables):
    values = set(variables["policy/kernel"].numpy().tolist()) | {float(variables["step"].numpy())}
    assert len(values) == 1, f"a mixture of checkpoints: {values}"
    return values.pop()


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


def test_an_empty_folder_has_nothing_to_restore_and_is_not_made(tmp_path):
    manager = CheckpointManager(tmp_path / "none")
    assert manager.restore(_filled(0)) is None
    assert manager.latest_step() is None
    assert not (tmp_path / "none").exists()


def test_the_newest_are_kept(tmp_path):
    manager = CheckpointManager(tmp_path, keep=2)
    for step in (5, 10, 1_000_000_000_000, 1_000_000_000_001):
        manager.save(_filled(step % 97), step)
    assert sorted(os.listdir(tmp_path)) == ["step_1000000000000", "step_1000000000001"]
    with pytest.raises(UsageError, match="at least 1"):
        CheckpointManager(tmp_path, keep=0)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path, caplog, how):
    manager = CheckpointManager(tmp_path)
    manager.save(_filled(1), 10, {"value": 1})
    _damage(manager.save(_filled(2), 20, {"value": 2}), how)
    variables = _filled(0)
    again = CheckpointManager(tmp_path)
    assert again.restore(variables) == {"value": 1}
    assert _value(variables) == 1 and again.restored_step == 10
    warnings = [each.getMessage() for each in caplog.records]
    assert len(warnings) == 1 and "step_000000000020 is damaged" in warnings[0]


def test_all_damaged_is_a_usage_error_and_changes_nothing(tmp_path):
    manager = CheckpointManager(tmp_path)
    _damage(manager.save(_filled(1), 10), "flipped")
    _damage(manager.save(_filled(2), 20), "missing")
    variables = _filled(7)
    before = sorted(map(str, tmp_path.rglob("*")))
    with pytest.raises(UsageError, match=r"every checkpoint in .* is damaged"):
        CheckpointManager(tmp_path).restore(variables)
    assert _value(variables) == 7
    assert sorted(map(str, tmp_path.rglob("*"))) == before


def test_damaged_later_checkpoints_do_not_crowd_out_the_resumed_run(tmp_path):
    first = CheckpointManager(tmp_path, keep=2)
    first.save(_filled(1), 10)
    _damage(first.save(_filled(2), 20), "flipped")
    resumed = CheckpointManager(tmp_path, keep=1)
    variables = _filled(0)
    resumed.restore(variables)
    resumed.save(_filled(3), 15)
    assert os.listdir(tmp_path) == ["step_000000000015"]
    CheckpointManager(tmp_path).restore(variables)
    assert _value(variables) == 3


def test_an_intact_later_checkpoint_is_not_overtaken(tmp_path):
    CheckpointManager(tmp_path).save(_filled(2), 20)
    with pytest.raises(CheckpointError, match="newer than step 10"):
        CheckpointManager(tmp_path).save(_filled(1), 10)
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
    CheckpointManager(tmp_path).save(_filled(4) | {"replay": tf.Variable(tf.ones([9]))}, 4, {"m": 1})
    variables = _filled(0)
    with pytest.raises(UsageError, match="replay: in the checkpoint only"):
        CheckpointManager(tmp_path).restore(variables)
    assert CheckpointManager(tmp_path).restore(variables, partial=True) == {"m": 1}
    assert _value(variables) == 4


def test_the_manifest_tells_what_is_inside(tmp_path):
    path = CheckpointManager(tmp_path).save(_filled(4), 4, {"m": 1})
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
    assert read_single(best, _filled(0)) is None
    variables = _filled(0)
    for value in (1, 2):
        write_single(best, _filled(value), {"value": value})
        assert read_single(best, variables) == {"value": value}
        assert _value(variables) == value
    assert os.listdir(tmp_path) == ["best"]
    _damage(best, "truncated")
    with pytest.raises(UsageError, match="damaged"):
        read_single(best, variables)
    assert _value(variables) == 2


def test_single_is_found_between_the_two_renames(tmp_path):
    best = write_single(tmp_path / "best", _filled(1), {"value": 1})
    best.rename(tmp_path / ".ckpt-old-best")
    variables = _filled(0)
    assert read_single(best, variables) == {"value": 1} and _value(variables) == 1


class _Crash(BaseException):
    """Stands for the death of the process."""


class _CrashAfter:
    """From the nth file operation on, every one of them fails, as after a kill: no clean-up runs either."""

    def __init__(self, monkeypatch, count):
        self.left = count
        for owner, name in ((os, "rename"), (os, "fsync"), (os, "mkdir"), (os, "replace"), (os, "unlink")):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))
        monkeypatch.setattr(tf.train.Checkpoint, "write", self._torn_write(tf.train.Checkpoint.write))
        monkeypatch.setattr(shutil, "rmtree", self._torn_rmtree())

    def _tick(self):
        self.left -= 1
        if self.left < 0:
            raise _Crash

    def _counted(self, function):
        def call(*args, **kwargs):
            self._tick()
            return function(*args, **kwargs)

        return call

    def _torn_write(self, function):
        def call(this, prefix):
            try:
                self._tick()
            except _Crash:
                Path(f"{prefix}.data-00000-of-00001").write_bytes(b"half of it")
                raise
            return function(this, prefix)

        return call

    def _torn_rmtree(self):
        def call(path, ignore_errors=False):
            if ignore_errors and not os.path.exists(path):
                return
            for each in sorted(Path(path).iterdir()):
                os.unlink(each)  # counted: the crash may come half-way
            self._tick()
            os.rmdir(path)

        return call


def _crash_at_every_operation(tmp_path, monkeypatch, prepare, act, check):
    """Runs `act` with a crash at its 1st, 2nd ... file operation, `check`ing what is left each time."""
    crashes = 0
    while True:
        folder = tmp_path / str(crashes)
        prepare(folder)
        with monkeypatch.context() as patch:
            _CrashAfter(patch, crashes)
            try:
                act(folder)
                done = True
            except _Crash:
                done = False
        check(folder, done)
        if done:
            return crashes
        crashes += 1


def test_a_crash_at_any_file_operation_leaves_a_usable_checkpoint(tmp_path, monkeypatch):
    def prepare(folder):
        CheckpointManager(folder, keep=1).save(_filled(1), 10)

    def act(folder):
        CheckpointManager(folder, keep=1).save(_filled(2), 20)

    def check(folder, done):
        variables = _filled(0)
        manager = CheckpointManager(folder, keep=1)
        assert manager.restore(variables) is not None
        assert _value(variables) * 10 == manager.restored_step
        assert not done or _value(variables) == 2
        manager.save(_filled(3), 30)
        assert os.listdir(folder) == ["step_000000000030"], "leftovers"

    assert _crash_at_every_operation(tmp_path, monkeypatch, prepare, act, check) > 8


@pytest.mark.parametrize("tidy", [False, True])
def test_a_crash_while_replacing_leaves_the_old_or_the_new(tmp_path, monkeypatch, tidy):
    def prepare(folder):
        folder.mkdir()
        write_single(folder / "best", _filled(1), {"value": 1})

    def act(folder):
        write_single(folder / "best", _filled(2), {"value": 2})

    def check(folder, done):
        if tidy:
            CheckpointManager(folder)
        variables = _filled(0)
        meta = read_single(folder / "best", variables)
        assert meta == {"value": _value(variables)}
        assert not done or meta == {"value": 2}
        write_single(folder / "best", _filled(3), {"value": 3})
        read_single(folder / "best", variables)
        assert _value(variables) == 3
        assert os.listdir(folder) == ["best"], "leftovers"

    assert _crash_at_every_operation(tmp_path, monkeypatch, prepare, act, check) > 8


def test_a_crash_while_saving_the_same_step_again_leaves_one(tmp_path, monkeypatch):
    def prepare(folder):
        CheckpointManager(folder, keep=1).save(_filled(1), 10)

    def act(folder):
        CheckpointManager(folder, keep=1).save(_filled(2), 10)

    def check(folder, done):
        variables = _filled(0)
        CheckpointManager(folder, keep=1).restore(variables)
        assert _value(variables) in ({2} if done else {1, 2})

    assert _crash_at_every_operation(tmp_path, monkeypatch, prepare, act, check) > 8


SAVE_FOREVER = """
    import sys
    import numpy as np, tensorflow as tf
    from rl.utils.checkpoint import CheckpointManager, write_single
    folder = sys.argv[1]
    big = tf.Variable(np.zeros([1 << 20], np.float32))
    step = tf.Variable(np.int64(0))
    variables = {"policy/kernel": big, "step": step}
    manager = CheckpointManager(folder, keep=1)
    manager.restore(variables)
    while True:
        step.assign_add(1)
        big.assign(tf.fill(big.shape, tf.cast(step, tf.float32)))
        manager.save(variables, int(step))
        write_single(folder + "/best", variables, {"step": int(step)})
        print(int(step), flush=True)
"""


def test_kill_9_while_saving_always_leaves_a_checkpoint_to_go_on_from(tmp_path):
    rng = random.Random(0)
    last = 0
    for _ in range(3):
        command = [sys.executable, "-c", textwrap.dedent(SAVE_FOREVER), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
            for _ in range(rng.randint(1, 4)):
                told = int(child.stdout.readline())
            try:
                child.wait(rng.random() * 0.2)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGKILL)
            assert child.wait() == -signal.SIGKILL
        for restore in (
            CheckpointManager(tmp_path).restore,
            lambda into: read_single(tmp_path / "best", into),
        ):
            variables = _filled(0, 1 << 20)
            assert restore(variables) is not None
            assert _value(variables) >= told > last
        last = told


def test_a_reader_does_not_disturb_a_writer(tmp_path):
    """A temporary folder of a live writer, who holds the lock, stays; a dead one's goes."""
    import fcntl

    CheckpointManager(tmp_path).save(_filled(1), 1)
    temporary = tmp_path / ".ckpt-tmp-step_000000000002"
    temporary.mkdir()
    lock = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        variables = _filled(0)
        CheckpointManager(tmp_path).restore(variables)
        assert _value(variables) == 1 and temporary.exists()
    finally:
        os.close(lock)
    CheckpointManager(tmp_path)
    assert not temporary.exists()


def test_other_folders_beside_the_checkpoints_are_left_alone(tmp_path):
    for name in (".tmp-mine", "old", "step_7", "notes"):
        (tmp_path / name).mkdir()
    manager = CheckpointManager(tmp_path, keep=1)
    manager.save(_filled(1), 1)
    manager.save(_filled(2), 2)
    assert sorted(os.listdir(tmp_path)) == [".tmp-mine", "notes", "old", "step_000000000002", "step_7"]


def test_a_full_disk_is_one_clear_error_and_the_earlier_checkpoint_stays(small_disk):
    manager = CheckpointManager(small_disk / "checkpoints", keep=1)
    manager.save(_filled(1), 1)
    for size in (1 << 20, 1 << 19):  # the data do not fit
        with pytest.raises(
            CheckpointError, match=r"cannot write checkpoint .*No space left on device"
        ) as caught:
            manager.save(_filled(2, size), 2)
        assert "\n" not in str(caught.value) and "{{" not in str(caught.value)
        assert os.listdir(small_disk / "checkpoints") == ["step_000000000001"]
    variables = _filled(0)
    CheckpointManager(small_disk / "checkpoints").restore(variables)
    assert _value(variables) == 1
    manager.save(_filled(3), 3)
    manager.restore(variables)
    assert _value(variables) == 3


def test_an_impossible_folder_is_one_clear_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="Not a directory"):
        CheckpointManager(tmp_path / "file" / "checkpoints").save(_filled(1), 1)


def test_a_newer_format_is_refused(tmp_path):
    from rl.utils import checkpoint

    path = CheckpointManager(tmp_path).save(_filled(1), 1)
    body = json.loads((path / "manifest.json").read_text())
    body.pop("checksum")
    body["format"] = 2
    (path / "manifest.json").write_text(json.dumps({"checksum": checkpoint._body_checksum(body), **body}))
    with pytest.raises(UsageError, match="newer version"):
        CheckpointManager(tmp_path).restore(_filled(0))


def test_only_variables_are_saved(tmp_path):
    with pytest.raises(TypeError, match="w is a ndarray"):
        CheckpointManager(tmp_path).save({"w": np.zeros(3)}, 1)
    assert os.listdir(tmp_path) == []
