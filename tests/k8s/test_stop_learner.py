"""The learner of a Ray head saves and ends before the head does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from k8s import stop_learner

LEARNER = """
import pathlib, signal, sys, time
def save(*_):
    time.sleep(0.5)
    pathlib.Path("saved").touch()
    sys.exit(143)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.fixture
def processes(tmp_path):
    """Starts `python SCRIPT`, and shows it in a /proc that has no other processes."""
    started = []
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "self").touch()

    def start(script):
        (tmp_path / script).write_text(LEARNER)
        process = subprocess.Popen([sys.executable, script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        (tmp_path / "proc" / str(process.pid)).symlink_to(f"/proc/{process.pid}")
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_learner_has_saved_when_the_wait_ends(processes, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    learner, other = processes("train.py"), processes("other.py")
    assert stop_learner.learners(tmp_path / "proc") == [learner.pid]
    assert stop_learner.main(tmp_path / "proc") == 0
    assert (tmp_path / "saved").exists() and learner.wait(10) == 143
    assert other.poll() is None


def test_outside_of_a_pod_nothing_is_stopped(processes, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    learner = processes("train.py")
    assert stop_learner.main(tmp_path / "proc") == 2
    assert learner.poll() is None
    assert capsys.readouterr().err.startswith("error: this is no Pod")


def test_process_that_ends_meanwhile_is_passed_over(tmp_path):
    (tmp_path / "123").mkdir()
    assert stop_learner.learners(Path(tmp_path)) == []
