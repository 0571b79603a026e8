"""A run that hangs: what is said of it, to whom, and when it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from small_runs import trainer_of
from stop_after import StopAfter

from rl import heartbeat
from rl.envs.own import give_env
from rl.hparams.merge import resolve

ROOT = Path(__file__).resolve().parents[1]
TINY = {"compile": "eager", "num_envs": 1, "rollout_length": 4, "minibatches": 1, "epochs": 1}
TINY |= {"log_period": 4, "train_steps": 8}


class Slow(gymnasium.Env):
    """One step long. The first reset and the second step do not return before it was complained of."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    told: ClassVar[threading.Semaphore] = threading.Semaphore(0)
    calls: ClassVar[dict[str, int]] = {}

    def wait(self, call):
        self.calls[call] = self.calls.get(call, 0) + 1
        if self.calls[call] == {"reset": 1, "step": 2}[call]:
            assert self.told.acquire(timeout=30.0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wait("reset")
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.wait("step")
        return np.zeros(1, np.float32), 1.0, True, False, {}


@pytest.fixture
def fast(monkeypatch):
    """Looks often, and complains soon."""
    monkeypatch.setattr(heartbeat, "LOOK", 0.01)
    monkeypatch.setattr(heartbeat, "TELL", 0.2)


def test_an_environment_that_hangs_is_named_in_the_log_and_the_heartbeat_follows(tmp_path, fast, monkeypatch):
    beats, warning = [], heartbeat.log.warning

    def heard(text, *values):
        warning(text, *values)
        if "no progress" in text and "environment's" in values[-1]:
            beats.append(json.loads((tmp_path / "heartbeat").read_text()))
            Slow.told.release()

    monkeypatch.setattr(heartbeat.log, "warning", heard)
    monkeypatch.setattr(Slow, "calls", {"reset": 100, "step": 100})
    hparams = resolve("ppo", TINY | {"env": give_env(Slow)})
    with contextlib.closing(trainer_of(hparams, tmp_path)) as trainer:
        Slow.calls.clear()  # of what has only looked at it
        trainer.train(StopAfter())
    log = (tmp_path / "train.log").read_text()
    assert "warning: no progress for 0 s: waiting for the environment's step\n" in log
    assert "warning: no progress for 0 s: waiting for the environment's reset\n" in log
    assert log.count("it goes on, after 0 s") >= 2
    assert [each["what"] for each in beats] == ["the environment's reset", "the environment's step"]
    assert json.loads((tmp_path / "heartbeat").read_text())["step"] == 8
    assert heartbeat.verdict(tmp_path, 1.0, time.time() + 1e6)[0]  # over, however long ago


@pytest.mark.parametrize(
    "step, time, alive", [(5, 0, True), (5, -9, False), (5, 9, False), ("1e999", 0, False)]
)
def test_a_beat_of_another_time_or_of_no_number_is_none(tmp_path, step, time, alive):
    """A clock that was set back would have it alive until it has caught up."""
    (tmp_path / "heartbeat").write_text(f'{{"time": {100 + time}, "step": {step}, "what": "a step"}}')
    assert heartbeat.verdict(tmp_path, 5.0, 100.0)[0] is alive


def test_a_run_without_rights_is_one_line(monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", denied)
    assert heartbeat.verdict(Path("run_0"), 5.0, 0.0) == (False, "run_0 cannot be read (PermissionError)")


def test_an_evaluation_a_checkpoint_and_a_compiled_call_are_named(tmp_path, monkeypatch):
    named = []
    for module in ("in_graph", "evaluate", "trainer"):
        monkeypatch.setattr(f"rl.runners.{module}.doing", named.append)
    hparams = resolve("ppo_identity", TINY | {"num_envs": 2})
    with contextlib.closing(trainer_of(hparams, tmp_path, eval_episodes=1)) as trainer:
        trainer.train(StopAfter())
    assert named[0] == "the compiled iterations" and named[-1] == "a checkpoint to be written"
    assert {"the environment's step, of an evaluation", "a row of metrics to be written"} <= set(named)


PROGRAM = """
import sys, time
from pathlib import Path
from rl import heartbeat
heartbeat.LOOK, limit, wait = 0.05, float(sys.argv[2]), float(sys.argv[3])
with heartbeat.Watch(Path(sys.argv[1]), lambda: 12, limit):
    heartbeat.doing("the environment's step")
    print("begun", flush=True)
    time.sleep(wait)
    assert "tensorflow" not in sys.modules
"""


def program(folder, limit, wait, **variables):
    words = [sys.executable, "-c", PROGRAM, folder, limit, wait]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": ROOT}
    return subprocess.Popen([str(word) for word in words], env=os.environ | variables, **pipes)


def test_a_run_that_hangs_ends_where_that_was_asked_for(tmp_path):
    _, err = program(tmp_path, 0.3, 60.0).communicate(timeout=30)
    assert err == "no progress for 0 s: waiting for the environment's step; the same command goes on\n"


START = """
import sys, time
from rl import cli, heartbeat
cli._run = lambda words: time.sleep(float(words[0])) or 0  # in place of imports, or a store, that hang
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("limit", "code"), [("1", 75), ("", 0), ("60", 0)])
def test_a_pod_in_which_no_run_begins_ends_as_a_failure(limit, code):
    words = [sys.executable, "-c", START, "60" if code else "0.1"]
    pipes = {"capture_output": True, "text": True, "cwd": ROOT}
    done = subprocess.run(words, env=os.environ | {"RL_START_SECONDS": limit}, timeout=50, **pipes)
    assert done.returncode == code
    assert done.stderr == ("no run has begun within 1 s; the same command goes on\n" if code else "")


def test_a_process_that_was_stopped_as_a_whole_has_not_hung(tmp_path):
    process = program(tmp_path, 1.0, 0.5)
    assert process.stdout.readline() == "begun\n"
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_probe_says_whether_a_run_goes_on(tmp_path, capsys):
    elsewhere = tmp_path / "elsewhere"
    process = program(tmp_path / "no_such_folder", 60.0, 0.2, RL_HEARTBEAT=str(elsewhere))
    process.communicate(timeout=30)
    assert process.returncode == 0
    found = json.loads(elsewhere.read_text())
    assert (found["what"], found["step"]) == ("over", 12)
    beat = {"time": time.time() - 50.0, "step": 1234, "what": "the compiled iterations", "pid": 1}
    (tmp_path / "heartbeat").write_text(json.dumps(beat))
    assert heartbeat.main([str(elsewhere)]) == 0
    assert heartbeat.main([str(tmp_path), "--seconds", "600"]) == 0
    assert heartbeat.main([str(tmp_path), "--seconds", "20"]) == 1
    assert capsys.readouterr().err == "step 1,234, 50 s ago: waiting for the compiled iterations\n"
    assert heartbeat.main([str(tmp_path / "none")]) == 1
    (tmp_path / "heartbeat").write_text("{")
    assert heartbeat.main([str(tmp_path)]) == 1
    with pytest.raises(SystemExit, match="2"):
        heartbeat.main([str(tmp_path), "--seconds", "-1"])


def test_the_probe_loads_nothing_that_takes_time():
    words = "import sys, rl.heartbeat; print({'tensorflow', 'numpy', 'keras', 'ray'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", words], cwd=ROOT, text=True) == "set()\n"


def test_a_heartbeat_that_cannot_be_written_is_no_matter_and_leaves_nothing(tmp_path, fast, monkeypatch):
    with heartbeat.Watch(tmp_path / "gone", lambda: 3):
        time.sleep(0.1)
    tried = []

    def full(source, target):
        tried.append(target)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(heartbeat.os, "replace", full)
    with heartbeat.Watch(tmp_path, lambda: 3):
        pass
    assert tried and not list(tmp_path.iterdir())
