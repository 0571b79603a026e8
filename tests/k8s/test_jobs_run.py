"""The command of a generated Job, run as a process as it stands: trains, and goes on where it was ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml

from k8s.generate import main
from rl import cli

ROOT = Path(__file__).parents[2]
STEPS = 3072
SETTINGS = "compile=graph,checkpoint_period=0,log_period=64,eval_period=1024"
WORDS = [
    "--hparams",
    "dqn_identity",
    "--hparam_override",
    SETTINGS,
    "--seed",
    "5",
    "--train_steps",
    str(STEPS),
]
WORDS += ["--eval_episodes", "2", "--test_episodes", "1"]


@pytest.fixture
def outside():
    """A folder that is not below /tmp, where no claim can be mounted: a Pod's scratch space is there."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="rl-job-") as folder:
        yield Path(folder)


def pod_of(folder, capsys, *more):
    """The container of the Job that the generator writes, a claim mounted at `folder`."""
    words = [*WORDS, "--image", "img:1", "--output_dir", str(folder), "--pvc", "mine", "--mount", str(folder)]
    assert main([*words, "--tensorboard", "False", "--write_to", "-", *more]) == 0
    (job,) = yaml.safe_load_all(capsys.readouterr().out)
    assert job["kind"] == "Job"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert "command" not in container  # the image's entry point, tini, runs the arguments
    return container


def start(container, tmp_path, **variables):
    """A process as the Pod has it, on a node of its own: the arguments in the code's folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {each["name"]: each["value"] for each in container["env"]}
    node = tempfile.mkdtemp(dir=tmp_path, prefix="node-")
    assert given.keys() >= {"HOME", "TMPDIR"}
    environment = os.environ | given | {"HOME": node, "TMPDIR": node, "PATH": path} | variables
    if "RL_HEARTBEAT" in given:
        environment["RL_HEARTBEAT"] = str(tmp_path / "heartbeat")  # one node after the other has it there
    words = container["args"]
    return subprocess.Popen(
        words, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )


def probed(container, tmp_path):
    """What the kubelet's look at the container comes to, in words: "" where it goes on."""
    words = [
        str(tmp_path / "heartbeat") if "/" in each else each
        for each in container["livenessProbe"]["exec"]["command"]
    ]
    return subprocess.run([sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True).stderr


def finished(process, code):
    out, _ = process.communicate(timeout=400)
    assert process.returncode == code, out[-2000:].decode()


def wait_for_checkpoint(run, after, process):
    """Waits until there is a checkpoint later than that step; returns its name."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        there = sorted(path.name for path in (run / "checkpoints").glob("step_*"))
        if there and there[-1] > after:
            return there[-1]
        time.sleep(0.05)
    raise AssertionError(f"no checkpoint after {after!r}; the process: {process.poll()}")


TERM, KILL = signal.SIGTERM, signal.SIGKILL  # a grace period that is long enough, and one that is too short


@pytest.mark.usefixtures("rewritten_graphs")
@pytest.mark.slow
@pytest.mark.parametrize("signals", [[TERM], [KILL, TERM]])
def test_a_job_that_is_taken_away_ends_as_one_that_was_not(tmp_path, outside, capsys, signals):
    near, far = outside / "near", outside / "far"
    alone, pod = pod_of(near, capsys), pod_of(far, capsys)
    assert cli.main(alone["args"][2:]) == 0  # in this process, undisturbed
    run, at = far / "run_0", ""
    assert "has not begun" in probed(pod, tmp_path)
    for number in signals:
        process = start(pod, tmp_path)
        at = wait_for_checkpoint(run, at, process)
        process.send_signal(number)
        finished(process, 143 if number == TERM else -KILL)
        assert probed(pod, tmp_path) == ""  # it went on just now
    finished(start(pod, tmp_path), 0)
    assert (run / "metrics.csv").read_bytes() == (near / "run_0" / "metrics.csv").read_bytes()
    assert (run / "train.log").read_text().count("resumed at step") == len(signals)
    assert len((run / "metrics.csv").read_text().splitlines()) == STEPS // 64 + 1


@pytest.mark.slow
def test_a_copy_of_an_indexed_job_is_the_one_of_its_index(tmp_path, outside, capsys):
    near, far = outside / "near", outside / "far"
    together = start(pod_of(near, capsys, "--copies", "2"), tmp_path)
    finished(start(pod_of(far, capsys, "--copies", "2"), tmp_path, JOB_COMPLETION_INDEX="1"), 0)
    finished(together, 0)
    assert [path.name for path in far.iterdir()] == ["run_1"]
    assert sorted(path.name for path in near.iterdir()) == ["run_0", "run_1"]
    metrics = [folder / "run_1" / "metrics.csv" for folder in (near, far)]
    assert metrics[0].read_bytes() == metrics[1].read_bytes()


def test_wrong_input_ends_with_the_exit_code_that_is_not_tried_again(tmp_path, outside, capsys):
    container = pod_of(outside, capsys)
    container["args"] += ["--train_steps", "none"]
    finished(start(container, tmp_path), 2)
