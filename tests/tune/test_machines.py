"""A search's processes on a Ray cluster: how they end, and a search whose trial is lost with its actor."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rl.errors import UsageError
from rl.tune.machines import machines
from rl.tune.runs import Command, finish
from rl.workers.cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import processes  # noqa: E402

WAITS = """
import pathlib, sys, time
folder = pathlib.Path(sys.argv[-1])
(folder / "words").write_text(" ".join(sys.argv[1:]))
while not (folder / "end").exists():
    time.sleep(0.05)
sys.exit(3)
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts processes that wait for a file, on a Ray of this test's own."""
    monkeypatch.setenv("RAY_worker_niceness", "0")
    own = Cluster(None, 3)
    with machines(3, "auto", 0) as found:  # joins what is there

        def start(name):
            made = found.start(Command(("--seed", "1"), tmp_path / name), found.places[0], WAITS)
            if name == "unseen":  # before its actor, whose process has to start, can look
                (tmp_path / name).rmdir()
            return made

        yield start
    own.close()


def until(true, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_process_on_a_cluster_ends_with_its_code_when_asked_and_with_its_actor(started, tmp_path):
    done, asked, lost = (started(name) for name in ("done", "asked", "lost"))
    unseen = started("unseen")
    until(lambda: all((tmp_path / name / "words").exists() for name in ("done", "asked", "lost")))
    assert (tmp_path / "done/words").read_text() == f"--seed 1 --output_dir {tmp_path / 'done'}"
    assert done.poll() is None
    (tmp_path / "done/end").touch()
    assert finish(done, 60.0) == 3 and done.poll() == 3
    asked.stop()
    assert finish(asked, 60.0) == -signal.SIGTERM
    os.kill(of_run(f"--output_dir {tmp_path / 'lost'}").parent, signal.SIGKILL)
    assert finish(lost, 60.0) == -signal.SIGKILL
    until(lambda: of_run(f"--output_dir {tmp_path / 'lost'}") is None)  # what it was doing ends with it
    with pytest.raises(UsageError, match=f"does not see {tmp_path}/unseen: a search needs it"):
        finish(unseen, 60.0)


@pytest.fixture
def address():
    """Where a cluster of one machine answers, which no driver has started."""
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    yield nodes.address
    where = nodes.head_node.get_session_dir_path()
    nodes.shutdown()
    shutil.rmtree(where, ignore_errors=True)


def tune(*words):
    line = [sys.executable, "-m", "rl.tune", *map(str, words)]
    return subprocess.Popen(line, text=True, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.slow
def test_a_search_on_a_cluster_goes_on_where_a_trial_s_machine_was_lost(tmp_path, address):
    folder = tmp_path / "found"
    words = ["ppo_identity", "--only", "--space", "lr=[2e-2,4e-3]", "--sampler", "grid"]
    words += ["--hparam_override", "checkpoint_period=0", "--train_steps", 40_000]
    words += ["--parallel", 2, "--ray_address", address]
    words += ["--seeds", 0, "--judge_seeds", "100-101", "--output_dir", folder]
    with tune(*words) as process:
        until(lambda: list(folder.glob("trial_000/run_0/checkpoints/step_*")), 300.0)
        os.kill(of_run(f"--output_dir {folder / 'trial_000'}").parent, signal.SIGKILL)
        out, err = process.communicate(timeout=900)
    assert process.returncode == 0, (out, err)
    assert "trial 0: its process was lost, going on from its last checkpoint" in out
    assert "resumed at step" in (folder / "trial_000/run_0/train.log").read_text()
    assert "2 of 2" in out and "ppo_identity" in (folder / "judged.md").read_text()


@pytest.mark.slow
def test_a_population_on_a_cluster_that_is_stopped_comes_to_that_of_this_machine(tmp_path, address):
    words = ["ppo_identity", "--population", 3, "--generations", 3, "--train_steps", 12_288]
    words += ["--space", "lr=log:1e-4:1e-2", "--eval_episodes", 2, "--parallel", 2]
    with tune(*words, "--output_dir", tmp_path / "here") as process:
        out, err = process.communicate(timeout=900)
    assert process.returncode == 0, (out, err)
    there = [*words, "--ray_address", address, "--output_dir", tmp_path / "there"]
    with tune(*there) as process:
        until(lambda: history(tmp_path / "there"), 300.0)
        time.sleep(3.0)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 143 and "the same command goes on" in out, (out, err)
    until(lambda: of_run(str(tmp_path / "there")) is None)
    with tune(*there) as process:
        out, err = process.communicate(timeout=900)
    assert process.returncode == 0, (out, err)
    assert history(tmp_path / "there") == history(tmp_path / "here")


def history(folder):
    """Scores, values and parents of each generation of a population that has ended."""
    file = folder / "population.json"
    return json.loads(file.read_text())["history"] if file.exists() else []


def of_run(name):
    """The living process whose run is in a folder of that name; None where there is none."""
    return next((each for each in map(processes.read, pids()) if each and name in each.title), None)


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
