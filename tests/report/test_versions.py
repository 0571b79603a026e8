"""The files beside a run's results, and whether a folder can be written at all."""

from __future__ import annotations

import importlib
import json
import os
import re
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rl.errors import UsageError
from rl.report import versions
from rl.report.versions import collect_versions, write_run_files
from rl.storage.files import checksum, ensure_writable_dir, write_json_atomic, write_text_atomic


def test_versions_are_those_of_what_is_imported():
    import gymnasium
    import keras
    import tensorflow as tf

    found = collect_versions()
    assert found["python"] == sys.version.split()[0]
    assert found["tensorflow"] == tf.__version__
    assert found["keras"] == keras.__version__
    assert found["numpy"] == np.__version__
    assert found["gymnasium"] == gymnasium.__version__
    assert {"envpool", "rl", "git_commit", "platform"} <= found.keys()


def test_the_commit_is_that_of_the_checkout_only(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *identity, "-C", tmp_path, *arguments], capture_output=True, check=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-qm", "first")
    git("tag", "-am", "v1", "v1")
    assert versions._git_commit(tmp_path) == git("rev-parse", "HEAD")
    (tmp_path / "file").write_text("2")
    assert versions._git_commit(tmp_path) == git("rev-parse", "HEAD") + "-dirty"
    (tmp_path / "inside").mkdir()
    assert versions._git_commit(tmp_path / "inside") is None


def test_run_files(tmp_path):
    run = tmp_path / "out" / "run_0"
    override = ["train.py", "--hparam_override", "model.hidden=[64, 64]"]
    write_run_files(run, {"lr": np.float32(0.5), "dir": Path("a/b"), "hidden": [64]}, shlex.join(override))
    write_run_files(run, {"lr": 0.25}, "python train.py")
    assert sorted(os.listdir(run)) == ["command.txt", "hparams.json", "versions.json"]
    assert json.loads((run / "hparams.json").read_text()) == {"lr": 0.25}
    assert json.loads((run / "versions.json").read_text()) == collect_versions()
    first, second = (run / "command.txt").read_text().splitlines()
    assert shlex.split(first, comments=True) == override  # a shell takes it as it was
    assert shlex.split(second, comments=True) == ["python", "train.py"]


def test_json_holds_plain_text_for_what_json_does_not_know(tmp_path):
    write_json_atomic(tmp_path / "a.json", {"lr": np.float32(0.5), "dir": Path("a/b"), "é": (1, 2)})
    assert json.loads((tmp_path / "a.json").read_text("utf-8")) == {"lr": 0.5, "dir": "a/b", "é": [1, 2]}


def test_text_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    write_text_atomic(path, "one\r\n")
    assert path.read_bytes() == b"one\r\n"

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(UsageError, match=r"cannot write .*a\.txt: No space left on device"):
            write_text_atomic(path, "two")
    assert path.read_bytes() == b"one\r\n" and os.listdir(tmp_path) == ["a.txt"]


def test_a_writable_folder_is_made_and_left_empty(tmp_path):
    folder = tmp_path / "a" / "b"
    assert ensure_writable_dir(folder) == folder
    assert os.listdir(folder) == []
    (folder / "kept").write_text("x")
    ensure_writable_dir(str(folder))
    assert os.listdir(folder) == ["kept"]


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_a_file_in_the_way_is_one_clear_line(tmp_path, below):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="not a folder") as caught:
        ensure_writable_dir(tmp_path / "file" / below)
    assert "\n" not in str(caught.value) and "--output_dir" in str(caught.value)


def test_a_full_disk_is_one_clear_line(small_disk):
    ensure_writable_dir(small_disk / "fits")
    (small_disk / "ballast").write_bytes(b"x" * ((1 << 20) - 10_000))
    with pytest.raises(UsageError, match="no space left in"):
        ensure_writable_dir(small_disk / "new" / "run_0")
    assert sorted(os.listdir(small_disk)) == ["ballast", "fits"]


def _refused(folder, before="", **limits):
    """What `ensure_writable_dir` says in a process of its own, with less rights or a limit."""
    code = "import sys; from rl.errors import UsageError\n"
    code += f"from rl.storage.files import ensure_writable_dir as f\n{before}\n"
    code += "try: f(sys.argv[1])\nexcept UsageError as error: print(error)"
    done = subprocess.run(
        [sys.executable, "-c", code, folder], capture_output=True, text=True, check=True, **limits
    )
    return done.stdout


def test_a_file_size_limit_reads_as_no_space(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    assert "no space left in" in _refused(tmp_path / "new", preexec_fn=limit)
    assert os.listdir(tmp_path) == []


def test_an_unwritable_folder_is_one_clear_line(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    with pytest.raises(UsageError, match=r"cannot write in .*Read-only file system.*--output_dir"):
        ensure_writable_dir(small_disk / "run_0")
    with pytest.raises(UsageError, match=r"cannot write .*Read-only file system"):
        write_text_atomic(small_disk / "a", "")


def test_a_folder_without_permission_is_one_clear_line(tmp_path):
    tmp_path.chmod(0o500)
    answer = _refused(tmp_path / "run_0", "import os; os.getuid() or os.setuid(65534)")
    assert "cannot write in" in answer and "Permission denied" in answer and answer.count("\n") == 1


def test_the_checksum_is_the_same_in_one_piece_and_in_chunks(tmp_path):
    import zlib

    content = os.urandom((1 << 22) + 17)
    (tmp_path / "a").write_bytes(content)
    assert checksum(tmp_path / "a") == zlib.crc32(content)


def _with_versions(run, monkeypatch, resumed_at, **others):
    """Starts in `run` with other versions; returns all that its folder then says of versions."""
    current = collect_versions()
    with monkeypatch.context() as patch:
        patch.setattr(versions, "collect_versions", lambda: current | others)
        write_run_files(run, {}, "python train.py", resumed_at)
    return {path.name: json.loads(path.read_text()) for path in run.glob("versions*")}


def test_a_run_that_goes_on_with_other_versions_says_so_and_keeps_both(tmp_path, monkeypatch, caplog):
    old, new, run = "a" * 40, "b" * 40 + "-dirty", tmp_path / "run_0"
    _with_versions(run, monkeypatch, None, keras="3.14.0", git_commit=old, platform="there")
    found = _with_versions(run, monkeypatch, 20_480, keras="3.15.1", git_commit=new, platform="here")
    assert found["versions.json"]["keras"] == "3.15.1"
    assert found["versions_to_step_20480.json"]["keras"] == "3.14.0" and len(found) == 2
    (line,) = caplog.messages
    assert "\n" not in line and f"{run} goes on from step 20,480 with other versions" in line
    assert "keras was 3.14.0, is 3.15.1" in line
    assert "git_commit was aaaaaaaaaa, is bbbbbbbbbb-dirty" in line
    assert "see versions_to_step_20480.json" in line and "platform" not in line and "numpy" not in line


def test_a_run_that_goes_on_with_other_code_of_the_users_own_says_so(tmp_path, monkeypatch, caplog):
    monkeypatch.syspath_prepend(tmp_path)
    for number in range(2):
        (tmp_path / "my_parts.py").write_text(f"FACTOR = {number}\n")
        monkeypatch.delitem(sys.modules, "my_parts", raising=False)
        importlib.invalidate_caches()
        importlib.import_module("my_parts")
        for _ in range(2):  # the same is not told
            saved = {"user_modules": ["my_parts"], "hparams": {"env": "CartPole-v1"}}
            write_run_files(tmp_path / "run", saved, "train", 16 if number else None)
    (line,) = caplog.messages
    assert re.search(
        r"goes on from step 16 with other versions \(code of my_parts was \w{10}, is \w{10}\)", line
    )


def test_versions_that_left_no_step_do_not_replace_those_that_did(tmp_path, monkeypatch):
    _with_versions(tmp_path, monkeypatch, None, rl="1")
    _with_versions(tmp_path, monkeypatch, 100, rl="2")  # killed before its first checkpoint
    found = _with_versions(tmp_path, monkeypatch, 100, rl="3")
    assert {name: each["rl"] for name, each in found.items()} == {
        "versions.json": "3",
        "versions_to_step_100.json": "1",
    }


def test_the_same_versions_are_not_told_of_nor_kept_twice(tmp_path, monkeypatch, caplog):
    _with_versions(tmp_path, monkeypatch, None, platform="there")
    assert set(_with_versions(tmp_path, monkeypatch, 100, platform="here")) == {"versions.json"}
    assert set(_with_versions(tmp_path, monkeypatch, None, rl="2")) == {"versions.json"}, (
        "nothing of it is left"
    )
    assert caplog.messages == []


@pytest.mark.parametrize("content", [b"\xff\xfe python train.py\n", None])
@pytest.mark.parametrize("name", ["command.txt", "versions.json"])
def test_a_damaged_file_beside_a_run_is_set_aside_with_one_line(tmp_path, caplog, name, content):
    if content is None:
        (tmp_path / name / "inside").mkdir(parents=True)
    else:
        (tmp_path / name).write_bytes(content)
    write_run_files(tmp_path, {}, "python train.py", 100)
    (line,) = caplog.messages
    assert f"{name} is no text" in line and f"kept as {name}.old" in line
    kept = tmp_path / f"{name}.old"
    assert (kept / "inside").is_dir() if content is None else kept.read_bytes() == content
    assert (tmp_path / "command.txt").read_text().startswith("python train.py  # ")
    assert json.loads((tmp_path / "versions.json").read_text()) == collect_versions()


@pytest.mark.parametrize("content", ["{", "[1, 2]", "3"])
def test_versions_that_are_none_are_set_aside_with_one_line(tmp_path, caplog, content):
    (tmp_path / "versions.json").write_text(content)
    write_run_files(tmp_path, {}, "python train.py", 100)
    assert (tmp_path / "versions.json.old").read_text() == content
    assert ["versions.json cannot be read" in line for line in caplog.messages] == [True]
