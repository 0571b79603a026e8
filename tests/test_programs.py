"""Compiled programs that are kept: used again, never where they are damaged, and never in a run's way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from rl import experiment, programs
from rl.cli import main
from rl.errors import Unavailable
from rl.runners.trainer import Trainer

COMPILES = """
from rl.imports import import_tensorflow
import_tensorflow()
import tensorflow as tf
for activation in (tf.tanh, tf.exp):  # a program each
    product = tf.function(lambda x: tf.linalg.matmul(x, activation(x)), jit_compile=True)
    print(product(tf.reshape(tf.range(9.0), [3, 3])).numpy().tobytes().hex())
"""


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A folder of the test's own in place of the user's."""
    monkeypatch.setenv("RL_PROGRAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TF_XLA_FLAGS", "")
    monkeypatch.setattr(programs.atexit, "register", lambda *_: None)
    return tmp_path / "cache"


def kept(folder, name="1", text=b"program", age=0.0):
    """Writes a program as TensorFlow does, of so many seconds ago."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"xla_compile_cache__{name}__XLA_CPU_JIT.pb"
    path.write_bytes(text)
    os.utime(path, (time.time() - age,) * 2)
    return path


def of_this_machine(cache):
    programs.keep()
    (folder,) = cache.iterdir()
    return folder


def test_a_second_process_takes_a_program_and_compiles_one_that_is_damaged_again(cache):
    def run():
        done = subprocess.run([sys.executable, "-c", COMPILES], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and done.stderr == "", done.stderr
        return done.stdout, sorted(cache.glob("*/*.pb"))

    result, (sound, damaged) = run()
    first = [path.stat().st_mtime_ns for path in (sound, damaged)]
    assert all(path.with_name(path.name + ".crc32").exists() for path in (sound, damaged))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[: len(whole) // 2])
    cut = damaged.stat().st_mtime_ns
    assert run() == (result, [sound, damaged])
    assert sound.stat().st_mtime_ns == first[0]
    assert damaged.stat().st_mtime_ns not in (first[1], cut) and len(damaged.read_bytes()) == len(whole)


def test_what_differs_from_its_checksum_is_deleted(cache):
    folder = of_this_machine(cache)
    good, bad = kept(folder, "1", age=1e4), kept(folder, "2", age=1e4)
    programs.seal(folder)
    bad.write_bytes(b"Program")
    assert programs.keep()
    assert good.exists() and not bad.exists()


def test_without_a_checksum_only_young_programs_are_used(cache):
    folder = of_this_machine(cache)
    young, old = kept(folder, "young", age=60.0), kept(folder, "old", age=3600.0)
    programs.keep()
    assert young.exists() and not old.exists()


def test_the_oldest_programs_go_where_all_are_too_large(cache, monkeypatch):
    monkeypatch.setattr(programs, "LARGEST", 25)
    folder = of_this_machine(cache)
    files = [kept(folder, str(age), bytes(10), age=age) for age in (30.0, 20.0, 10.0)]
    programs.keep()
    assert [each.exists() for each in files] == [False, True, True]


def test_what_other_versions_kept_goes_after_a_month(cache):
    folder = of_this_machine(cache)
    for name, age in (("0" * 16, 31.0), ("1" * 16, 29.0), ("somebody's", 31.0)):
        (cache / name).mkdir()
        os.utime(cache / name, (time.time() - 86_400.0 * age,) * 2)
    programs.keep()
    assert sorted(each.name for each in cache.iterdir()) == sorted([folder.name, "1" * 16, "somebody's"])


def test_folders_that_cannot_be_used_are_left_out(cache, monkeypatch, tmp_path):
    folder = of_this_machine(cache)
    folder.chmod(0o777)
    assert not programs.keep() and os.environ["TF_XLA_FLAGS"] == ""
    folder.chmod(0o700)
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, programs.FREE - 1))
        assert not programs.keep()
    assert programs.keep()
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "below", tmp_path / "with space", "off"):
        monkeypatch.setenv("RL_PROGRAM_CACHE", str(place))
        monkeypatch.setenv("TF_XLA_FLAGS", "")
        assert not programs.keep()


def test_flags_of_the_users_own_are_kept(cache, monkeypatch):
    monkeypatch.setenv("TF_XLA_FLAGS", "--tf_xla_cpu_global_jit")
    folder = of_this_machine(cache)
    both = f"--tf_xla_cpu_global_jit {programs.FLAG}={folder}"
    assert os.environ["TF_XLA_FLAGS"] == both
    assert programs.keep() and os.environ["TF_XLA_FLAGS"] == both  # a process that this one started
    monkeypatch.setenv("TF_XLA_FLAGS", f"{programs.FLAG}=/mine")
    assert programs.keep() and os.environ["TF_XLA_FLAGS"] == f"{programs.FLAG}=/mine"


def test_programs_of_other_settings_and_numbers_of_cores_are_others(cache, monkeypatch):
    def folder():
        programs.keep()
        return Path(os.environ["TF_XLA_FLAGS"].partition("=")[2])

    found = [folder()]
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math")
    found.append(folder())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(77)), raising=False)
    found.append(folder())
    assert len(set(found)) == 3


def test_a_disk_that_fills_while_one_is_written_is_one_line_and_code_75(cache, monkeypatch, tmp_path, capsys):
    folder = of_this_machine(cache)
    text = f"{folder}/xla_compile_cache__1__XLA_CPU_JIT.pb.tmp; No space left on device [Op:__inference_1]"

    def train(*_):
        raise OSError(text)

    monkeypatch.setattr(Trainer, "train", train)
    words = ["--hparams", "ppo_identity", "--output_dir", str(tmp_path / "run")]
    assert main([*words, "--hparam_override", "compile=graph"]) == 75
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "error" in each]
    assert f"{folder}: No space left on device; make room there, or set RL_PROGRAM_CACHE=off" in line
    assert not programs.failed(OSError("No space left on device")) and issubclass(Unavailable, Exception)
    assert experiment.programs is programs


@pytest.mark.parametrize(
    "said, imported, versions, comes_to",
    [
        ("", False, {"tensorflow-cpu": "2.21.0"}, f"{programs.DOTS}=dot"),
        ("--xla_a", False, {"tensorflow": "2.21.1"}, f"--xla_a {programs.DOTS}=dot"),
        ("", False, {"tensorflow": "2.21.0", "jaxlib": "0.10.2"}, f"{programs.DOTS}=dot"),
        (f"{programs.DOTS}=invalid", False, {"tensorflow": "2.21.0"}, f"{programs.DOTS}=invalid"),
        ("", True, {"tensorflow": "2.21.0"}, ""),  # XLA may have read it
        ("", False, {"tensorflow-tpu": "2.20.0"}, ""),  # may not know it, and would end the process
        ("", False, {"tensorflow": "2.21.0", "jaxlib": "0.6.2"}, ""),  # likewise
        ("", False, {"jaxlib": "0.10.2"}, ""),
    ],
)
def test_ynnpack_computes_products_where_that_was_tried(monkeypatch, said, imported, versions, comes_to):
    def installed(name):
        if name not in versions:
            raise programs.metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setenv("XLA_FLAGS", said)
    monkeypatch.setattr(programs.metadata, "version", installed)
    monkeypatch.setattr(sys, "modules", {"tensorflow": sys} if imported else {})
    programs.choose_kernels()
    assert os.environ["XLA_FLAGS"] == comes_to


def test_any_part_of_the_package_sets_what_xla_reads_before_tensorflow_does():
    code = "import os, rl.types; print(os.environ['XLA_FLAGS'])"
    environ = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [f"{programs.DOTS}=dot"], done.stderr


@pytest.mark.parametrize(
    "shapes",
    [
        [(1, 1), (1, 1), (1, 1)],
        [(3, 7), (7, 5), (5, 3)],
        [(128, 4), (4, 120), (120, 84)],
        [(256, 17), (17, 256), (256, 6)],
        [(3, 64, 4), (3, 4, 64), (3, 64, 2)],  # three networks as one product
    ],
)
def test_gradients_of_compiled_products_are_those_of_double_precision(shapes):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]

    def gradients(x, first, second):
        with tf.GradientTape() as tape:
            tape.watch([x, first, second])
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ first) @ second))
        return tape.gradient(loss, [x, first, second])

    expected = gradients(*map(tf.constant, arrays))
    narrow = [tf.constant(each, tf.float32) for each in arrays]
    for found, wanted in zip(tf.function(gradients, jit_compile=True)(*narrow), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())
