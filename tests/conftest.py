"""What several test files share: runners of named sets, a full disk, the command line as a user types it."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import plain_graphs
import pytest

from rl import programs
from rl.imports import import_tensorflow

ROOT = Path(__file__).resolve().parents[1]
# What this run of the tests compiles, in any of its processes, is compiled once: kept until it ends.
COMPILED = Path(tempfile.gettempdir(), f"programs-{os.getpid()}")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Two processes run tests, beside what those start: several threads each would only wait for one another.
for pool in ("INTEROP", "INTRAOP"):
    os.environ.setdefault(f"TF_NUM_{pool}_THREADS", "1")
if programs.FOLDER not in os.environ and programs.FLAG not in os.environ.get("TF_XLA_FLAGS", ""):
    os.environ[programs.FOLDER] = str(COMPILED)  # the processes that run tests inherit it
    programs.keep()


def pytest_addoption(parser):
    """`--user_modules`: whose algorithms tests/test_all_algos.py is to walk as well."""
    parser.addoption("--user_modules", default="", help="modules or files that register parts, as train.py's")


def pytest_configure(config):
    """Imports TensorFlow as the command line does, in processes that run tests, and what a user names."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        import_tensorflow()
        plain_graphs.rewrite(False)
        plain_graphs.note_no_stacks()
        plain_graphs.fold_no_constants()
        plain_graphs.share_constants()
        plain_graphs.build_in_c()
        from rl.envs import graph_gym

        graph_gym.BY_XLA = False  # it compiles for longer than is played here
    names = config.getoption("--user_modules")
    if names:
        from rl.registry import import_user_modules

        import_user_modules(names.split(","))


def pytest_unconfigure(config):
    """Deletes the compiled programs, in the process that named their folder."""
    shutil.rmtree(COMPILED, ignore_errors=True)


def pytest_collection_modifyitems(items):
    """Puts tests with Ray first, which are long: processes take each other's last tests, but for two."""
    items.sort(key=lambda item: item.path.parent.name != "workers" and "ray_here" not in item.fixturenames)


def pytest_collection_finish():
    """Has Python look for garbage less often, and not among thousands of tests: tracing makes few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


@pytest.fixture(autouse=True)
def _compiled_functions():
    """`compile=eager` is a setting of the whole process: undo it after each test."""
    yield
    if "tensorflow" in sys.modules:
        sys.modules["tensorflow"].config.run_functions_eagerly(False)


@pytest.fixture
def rewritten_graphs():
    """For a test that compares what is computed here, bit for bit, with what another process computes."""
    plain_graphs.rewrite(True)
    yield
    plain_graphs.rewrite(False)


@pytest.fixture
def build():
    """Builds the runner of a named set: `build("ppo_identity", seed=1, num_envs=2)`.

    Compiled as a graph unless a test says otherwise: XLA takes four times as long to compile.
    """
    from rl.hparams.merge import resolve
    from rl.runners.build import build_runner

    made = []

    def make(name, seed=0, workers=None, **overrides):
        runner = build_runner(resolve(name, {"compile": "graph", **overrides}), seed, workers)
        made.append(runner)
        return runner

    yield make
    for runner in made:
        runner.close()


@pytest.fixture
def state_of():
    """All variables of a runner by name, as numpy arrays."""
    return lambda runner: {name: np.array(each.numpy()) for name, each in runner.variables.items()}


@pytest.fixture
def assert_same_bits():
    """Raises at the first variable that differs in name, dtype or a single bit."""

    def check(found, expected):
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
            assert found[name].tobytes() == value.tobytes(), name

    return check


@pytest.fixture(scope="session")
def ray_here():
    """Ray on this machine, for all tests of a process."""
    from rl.workers.cluster import Cluster

    cluster = Cluster(None, 8)
    yield cluster.ray
    cluster.close()


@pytest.fixture
def disk_log(monkeypatch):
    """What is fsynced and renamed from here on, in order: (file, its bytes), (folder, None), (old name, new
    name)."""
    log, fsync = [], os.fsync

    def synced(descriptor):
        fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        log.append((path, path.stat().st_size if path.is_file() else None))

    def logged(rename):
        def call(old, new):
            rename(old, new)
            log.append((Path(old), Path(new)))

        return call

    monkeypatch.setattr(os, "fsync", synced)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, logged(getattr(os, name)))
    return log


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte; skipped where only root could mount one."""
    folder = tmp_path / "small_disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def command():
    """Runs `python train.py ...` in a process of its own: `command("--hparams", "dqn")` waits for its end."""
    started = []

    def start(*words, wait=True, **options):
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "train.py"), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=options.pop("cwd", ROOT),
            **options,
        )
        started.append(process)
        if not wait:
            return process
        out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
