"""Copies of a run side by side."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from rl.workers.copies import shares

SMALL = ["--hparams", "ppo_identity", "--test_episodes", "2", "--eval_episodes", "2"]


def test_places_share_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 0, 1, 2, 7}, raising=False)
    assert shares(2) == [[0, 1], [2, 3]]
    assert shares(5) == [[0], [1], [2], [3], [7]]
    assert shares(6) == [[]] * 6


def test_copies_side_by_side_are_those_one_after_another(command, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    done = command(*SMALL, "--copies", 3, "--parallel", 2, "--output_dir", one)
    assert done.returncode == 0, done.stderr
    assert all(f"{one}/run_{copy}" in done.stdout for copy in range(3)), done.stdout
    done = command(*SMALL, "--copies", 3, "--output_dir", other)
    assert done.returncode == 0, done.stderr
    for copy in range(3):
        rows = [(folder / f"run_{copy}" / "metrics.csv").read_bytes() for folder in (one, other)]
        assert rows[0] == rows[1]


def test_a_copy_that_is_killed_goes_on_and_a_request_to_stop_reaches_all(command, tmp_path):
    settings = "checkpoint_period=0.1,log_period=2000,env_backend=gym"
    words = ["--hparams", "ppo_cartpole", "--train_steps", "5000000", "--hparam_override", settings]
    process = command(*words, "--copies", 2, "--parallel", 2, "--output_dir", tmp_path, wait=False)
    logs = [tmp_path / f"run_{copy}" / "train.log" for copy in range(2)]
    until(lambda: all(log.exists() and "steps/s" in log.read_text() for log in logs), process)
    killed = children("ray::Copy", process)[0]
    os.kill(killed, signal.SIGKILL)
    until(lambda: any("resumed at step" in log.read_text() for log in logs), process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert out.count("its process was lost, going on from its last checkpoint") == 1
    for log in logs:
        assert any((log.parent / "checkpoints").iterdir())


def until(true, process):
    """Waits for it, as long as the process lives."""
    deadline = time.monotonic() + 180.0
    while not true():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.2)


def children(name, process):
    """Ids of the processes of that name among the descendants of one."""
    rows = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True).stdout.splitlines()
    parents = {int(row.split()[0]): int(row.split()[1]) for row in rows[1:]}
    found = []
    for row in rows[1:]:
        pid, up = int(row.split()[0]), int(row.split()[0])
        while up in parents and up != process.pid:
            up = parents[up]
        if up == process.pid and name in row:
            found.append(pid)
    assert found, rows
    return found
