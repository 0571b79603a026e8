"""Checkpoints survive a process that dies at any moment of writing one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import tensorflow as tf
from filled_variables import filled, value_of

from rl.storage.checkpoint import CheckpointManager, read_single, write_single


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
        def call(this, prefix, options):
            try:
                self._tick()
            except _Crash:
                Path(f"{prefix}.data-00000-of-00001").write_bytes(b"half of it")
                raise
            return function(this, prefix, options)

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
        CheckpointManager(folder, keep=1).save(filled(1), 10)

    def act(folder):
        CheckpointManager(folder, keep=1).save(filled(2), 20)

    def check(folder, done):
        variables = filled(0)
        manager = CheckpointManager(folder, keep=1)
        assert manager.restore(variables) is not None
        assert value_of(variables) * 10 == manager.restored_step
        assert not done or value_of(variables) == 2
        manager.save(filled(3), 30)
        assert os.listdir(folder) == ["step_000000000030"], "leftovers"

    assert _crash_at_every_operation(tmp_path, monkeypatch, prepare, act, check) > 8


@pytest.mark.parametrize("tidy", [False, True])
def test_a_crash_while_replacing_leaves_the_old_or_the_new(tmp_path, monkeypatch, tidy):
    def prepare(folder):
        folder.mkdir()
        write_single(folder / "best", filled(1), {"value": 1})

    def act(folder):
        write_single(folder / "best", filled(2), {"value": 2})

    def check(folder, done):
        if tidy:
            CheckpointManager(folder)
        variables = filled(0)
        meta = read_single(folder / "best", variables).meta
        assert meta == {"value": value_of(variables)}
        assert not done or meta == {"value": 2}
        write_single(folder / "best", filled(3), {"value": 3})
        read_single(folder / "best", variables)
        assert value_of(variables) == 3
        assert os.listdir(folder) == ["best"], "leftovers"

    assert _crash_at_every_operation(tmp_path, monkeypatch, prepare, act, check) > 8


def test_a_crash_while_saving_the_same_step_again_leaves_one(tmp_path, monkeypatch):
    def prepare(folder):
        CheckpointManager(folder, keep=1).save(filled(1), 10)

    def act(folder):
        CheckpointManager(folder, keep=1).save(filled(2), 10)

    def check(folder, done):
        variables = filled(0)
        CheckpointManager(folder, keep=1).restore(variables)
        assert value_of(variables) in ({2} if done else {1, 2})

    assert _crash_at_every_operation(tmp_path, monkeypatch, prepare, act, check) > 8


SAVE_FOREVER = """
    import sys
    import numpy as np, tensorflow as tf
    from rl.storage.checkpoint import CheckpointManager, write_single
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


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_kill_9_while_saving_always_leaves_a_checkpoint_to_go_on_from(tmp_path, kills):
    rng = random.Random(0)
    last = 0
    for _ in range(kills):
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
            variables = filled(0, 1 << 20)
            assert restore(variables) is not None
            assert value_of(variables) >= told > last
        last = told
