"""Copies of a run side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import threading
import time
import types
from pathlib import Path

import pytest

from rl import signals
from rl.cli import main
from rl.errors import GivenUp, NotFinite, NotSent, Unavailable
from rl.hparams.merge import resolve
from rl.request import Request
from rl.storage.storage import storage_of
from rl.workers import copies as module
from rl.workers.copies import Copy, Done, Task, shares

SMALL = ["--hparams", "ppo_identity", "--test_episodes", "2", "--eval_episodes", "2", "--copies", "3"]
SMALL += ["--hparam_override", "compile=graph"]  # XLA takes four times as long to compile


def test_places_share_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 0, 1, 2, 7}, raising=False)
    assert shares(2) == [[0, 1], [2, 3]]
    assert shares(5) == [[0], [1], [2], [3], [7]]
    assert shares(6) == [[]] * 6


LOST = None


class PlayedPlace(module._Place):
    """In a place's stead: processes that answer, or are lost, at once."""

    ends: list = []  # noqa: RUF012  (of one test)

    def start(self):
        if self.process is None:
            self.pipe, self.its_end = multiprocessing.Pipe()
            self.process = types.SimpleNamespace(pid=1)
        answer = self.ends.pop(0)
        if answer is LOST:
            self.its_end.close()
        else:
            self.its_end.send(answer)

    def end(self):
        self.process = None


@pytest.fixture
def played(monkeypatch, tmp_path):
    """Makes three copies whose processes end as is said, one after the other."""
    monkeypatch.setattr(module.os, "kill", lambda *_: None)
    monkeypatch.setattr(module, "_Place", PlayedPlace)
    request = Request(resolve("ppo_identity", ""), parallel=1)

    def make(*ends):
        monkeypatch.setattr(PlayedPlace, "ends", list(ends))
        return module._Copies(request, [storage_of(tmp_path, copy) for copy in range(3)], None)

    return make


def test_the_table_says_which_copy_has_failed_and_why(played):
    copies = played(Done([{"run": "run_0"}], None), Unavailable("no space left"))
    for _ in range(2):
        copies.go_on(starts=True)
    assert copies.table().splitlines()[1:] == [
        "run_0  done",
        "run_1  failed: no space left",
        "run_2  waiting",
    ]
    assert [str(each) for each in copies.failed] == ["no space left"] and list(copies.rows) == [0]


def test_a_copy_whose_process_dies_gets_another_one(played, capsys):
    copies = played(LOST, *[Done([{"run": "one"}], None)] * 3)
    while copies.go_on(starts=True):
        pass
    assert list(copies.rows) == [0, 1, 2] and not copies.failed
    assert capsys.readouterr().out.count("going on from its last checkpoint") == 1


def test_a_copy_that_loses_its_process_again_and_again_fails_as_may_pass_and_the_others_go_on(played):
    copies = played(LOST, LOST, LOST, *[Done([{"run": "one"}], None)] * 2)
    while copies.go_on(starts=True):
        pass
    (error,) = copies.failed
    assert type(error) is Unavailable and "run_0: its process was lost 3 times" in str(error)
    assert list(copies.rows) == [1, 2]


def test_a_copy_that_ends_within_a_long_iteration_when_asked_is_no_crash(played, capsys):
    copies = played(LOST, LOST, LOST)
    copies.go_on(starts=True)
    assert "its process was lost, going on" in capsys.readouterr().out
    copies.ask_to_stop()
    for _ in range(2):
        copies.go_on(starts=True)
    assert capsys.readouterr().out.count("ended within a long iteration, before its first checkpoint") == 2


def test_what_a_copy_raises_reaches_the_command_by_its_kind(played):
    assert type(module._portable(NotFinite("loss is NaN"))) is GivenUp  # exit code 3, as alone
    assert type(module._portable(Unavailable("no space left"))) is Unavailable
    assert type(module._portable(NotSent("another process writes there"))) is NotSent
    try:
        raise ValueError("of a loss")
    except ValueError as error:
        unknown = module._portable(error)
    assert "test_copies.py" in str(unknown) and "ValueError: of a loss" in str(unknown)
    with pytest.raises(RuntimeError, match="of a loss"):
        played(unknown).go_on(starts=True)


@pytest.mark.parametrize("error", [Unavailable("no space left"), NotSent("another process writes there")])
def test_a_copy_that_fails_by_itself_leaves_the_others_alone(played, error):
    copies = played(error, Done([], None))
    for _ in range(2):
        copies.go_on(starts=True)
    assert [(type(each), str(each)) for each in copies.failed] == [(type(error), str(error))]
    assert list(copies.rows) == [1]


def test_a_log_of_any_bytes_has_a_last_line(tmp_path):
    (tmp_path / "train.log").write_bytes(b"2026-01-01 10:00:00 a\n2026-01-01 10:00:01 b \xff\n")
    assert module._last_line(tmp_path / "train.log") == "b \ufffd"


def test_gpus_are_shared_among_places(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    request = Request(resolve("ppo_identity", ""), sys="gpu", parallel=3)
    assert [each.gpu for each in module._Copies(request, [], None)._places] == ["3", "5", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert [each.gpu for each in module._Copies(request, [], None)._places] == [None] * 3
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(Path, "glob", lambda *_: iter([Path("/dev/nvidia5"), Path("/dev/nvidia3")]))
    # CUDA calls the GPUs of a container 0 and 1, whatever their files are called.
    assert [each.gpu for each in module._Copies(request, [], None)._places] == ["0", "1", "0"]


def test_a_copy_asked_to_stop_within_a_long_iteration_is_ended(monkeypatch, tmp_path):
    ended, codes = threading.Event(), []

    def leave(code):
        codes.append(code)
        ended.set()

    def one_copy(*_):
        signal.raise_signal(signal.SIGTERM)
        assert ended.wait(60)
        return []

    monkeypatch.setattr(module, "PATIENCE", 0.01)
    monkeypatch.setattr(signals.os, "_exit", leave)
    hparams = resolve("ppo_identity", "").to_dict()
    Copy().train(Task(Request(None), hparams, str(tmp_path), 0, one_copy))
    assert codes == [143]


@pytest.mark.slow
@pytest.mark.usefixtures("rewritten_graphs")
def test_copies_side_by_side_are_those_one_after_another(tmp_path, capsys):
    # In this process, which has TensorFlow already; copies side by side get processes all the same.
    # The one output is remote, and sent by each copy.
    one, other = tmp_path / "one", tmp_path / "other"
    assert main([*SMALL, "--parallel", "2", "--output_dir", f"file://{one}"]) == 0
    shown = capsys.readouterr().out
    assert all(f"file://{one}/run_{copy}" in shown for copy in range(3)), shown
    assert main([*SMALL, "--output_dir", str(other)]) == 0
    for copy in range(3):
        rows = [(folder / f"run_{copy}" / "metrics.csv").read_bytes() for folder in (one, other)]
        assert rows[0] == rows[1]


@pytest.mark.slow
def test_a_copy_that_is_killed_goes_on_and_a_request_to_stop_reaches_all(tmp_path, capsys):
    settings = "checkpoint_period=0.1,log_period=2000,eval_period=2000000,env_backend=gym,compile=graph"
    words = ["--hparams", "ppo_cartpole", "--train_steps", "5000000", "--hparam_override", settings]
    folders = [tmp_path / f"run_{copy}" for copy in range(2)]

    groups = set()

    def meddle():
        try:
            until(lambda: all(rows(folder) >= 2 for folder in folders))  # so there is a checkpoint
            groups.update(os.getpgid(each) for each in copies())
            os.kill(copies()[0], signal.SIGKILL)
            until(lambda: any("resumed at step" in read(folder / "train.log") for folder in folders))
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    other = threading.Thread(target=meddle)
    handler = signal.signal(signal.SIGTERM, lambda *_: None)  # should the command have ended by then
    try:
        other.start()
        code = main([*words, "--copies", "2", "--parallel", "2", "--output_dir", str(tmp_path)])
        other.join()
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert code == 143
    assert len(groups) == 2 and os.getpgrp() not in groups  # Ctrl-C reaches none of them by itself
    assert sum("resumed at step" in read(folder / "train.log") for folder in folders) == 1
    assert capsys.readouterr().out.count("its process was lost, going on from its last checkpoint") == 1
    for folder in folders:
        assert any((folder / "checkpoints").iterdir())
    until(lambda: not copies())


def until(true):
    """Waits for it."""
    deadline = time.monotonic() + 180.0
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def read(path):
    return path.read_text() if path.exists() else ""


def rows(folder):
    """Of metrics, so far."""
    return len(read(folder / "metrics.csv").splitlines()) - 1


def copies():
    """Ids of the processes of copies that this one has started."""
    command = ["ps", "-wweo", "pid,ppid,args"]
    lines = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    table = [line.split(maxsplit=2) for line in lines[1:]]
    parents = {int(pid): int(parent) for pid, parent, _ in table}
    found = []
    for pid, _, title in table:
        up = int(pid)
        while up in parents and up != os.getpid():
            up = parents[up]
        if up == os.getpid() and "spawn_main" in title:
            found.append(int(pid))
    return found
