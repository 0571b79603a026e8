"""Runs with a remote output from end to end: in this process, and in processes that are killed."""

from __future__ import annotations

import os
import signal
import tempfile
import textwrap
import time
from pathlib import Path

import pytest
import tensorflow as tf
from far_away import remote_files, wait_for
from stop_after import StopAfter

import rl
from rl import experiment
from rl.cli import main
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.request import Request
from rl.storage import mirror
from rl.storage.checkpoint import CheckpointManager, read_manifest
from rl.storage.place import PlaceError, Remote, read
from rl.storage.storage import storage_at, storage_of
from rl.storage.transfer import get_newest

TINY = {"num_envs": 4, "rollout_length": 8, "log_period": 64, "train_steps": 640, "eval_period": 256}
DQN = {"prioritized": True, "replay_capacity": 300, "min_replay_size": 100, "updates_per_iteration": 4}


def train(output_dir, looks=10**9):
    """Trains, or goes on with, a run of DQN."""
    hparams = resolve("dqn", TINY | DQN | {"env": "CartPole-v1", "compile": "graph"})
    storage = storage_of(output_dir, 0)
    with storage.to_train():
        request = Request(hparams, "dqn", seed=3, eval_episodes=2)
        return experiment.train_one(request, storage, StopAfter(looks)).step


def final_state(run):
    """All that is in the newest checkpoint of a run, replay and environments included, and in `best`."""
    reader = storage_at(run)
    with reader.to_read():
        folder = reader.folder / "checkpoints"
        step = CheckpointManager(folder).latest_step()
        found = {"step": step}
        for path in (folder / f"step_{step:012d}", folder / "best"):
            variables = tf.train.load_checkpoint(str(path / read_manifest(path).prefix))
            names = [name for name in variables.get_variable_to_shape_map() if name[0] != "_"]
            found |= {f"{path.name}/{name}": variables.get_tensor(name).tobytes() for name in sorted(names)}
        return found


@pytest.mark.slow
def test_a_run_with_a_remote_output_is_the_run_with_a_local_one(tmp_path, store, machine):
    """Stopped once, and resumed on another machine."""
    far, near = store.removesuffix("/run_0"), tmp_path / "near"
    assert train(near) == 640
    assert train(far, looks=12) == 256
    machine()
    assert train(far) == 640
    found, expected = final_state(store), final_state(near / "run_0")
    assert len(found) > 20 and found == expected
    metrics = read(Remote(store), "metrics.csv")
    assert metrics.count(b"\n") == 11 and metrics == (near / "run_0" / "metrics.csv").read_bytes()
    assert b"resumed at step 256" in read(Remote(store), "train.log")
    assert sum(name.startswith("events.") for name in Remote(store).names()) == 2  # of both starts
    here = {path.relative_to(near / "run_0").as_posix() for path in (near / "run_0").glob("*.*")}
    assert {name for name in here if "tfevents" not in name} <= set(Remote(store).names())


@pytest.mark.slow
def test_the_command_trains_tests_and_films_a_remote_run(tmp_path, store, capsys):
    far = store.removesuffix("/run_0")
    words = ["--hparams", "ppo_identity", "--hparam_override", "compile=graph,eval_period=1024"]
    words += ["--train_steps", "2048", "--test_episodes", "1", "--eval_episodes", "1", "--output_dir", far]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert store in out and f"tensorboard --logdir {far}" in out and str(tmp_path) not in out
    before = remote_files(store)
    assert main([*words, "--training", "False", "--record_video"]) == 0
    assert len(remote_files(store) - before) == 1 and before < remote_files(store)
    assert Remote(f"{store}/videos").names()[0].startswith("best_step_")
    assert [rl.load(run)([0.0, 0.0, 1.0, 0.0]) for run in (far, store)] == [2, 2]
    run = rl.train("ppo_identity", output_dir=far, train_steps=2048, eval_period=1024, compile="graph")
    assert (run.run_dir, run.step) == (store, 2048)
    assert run.policy("last").evaluate(2).returns.shape == (2,)
    capsys.readouterr()
    assert main([*words, "--seed", "1"]) == 2
    assert f"{store} holds another run (seed is 0 there, 1 here)" in capsys.readouterr().err
    # Nothing is left on this machine but empty folders.
    assert not [path for path in Path(tempfile.gettempdir()).rglob("*") if path.is_file()]


@pytest.mark.slow
def test_a_run_whose_end_cannot_be_sent_says_where_it_is(tmp_path, address, monkeypatch, capsys):
    monkeypatch.setattr(mirror, "TRIES", (0.0,))
    put, gone = Remote.put, []

    def broken(self, path, name):
        if gone:
            raise PlaceError(f"cannot write {self.address}/{name} (the bucket is gone)")
        put(self, path, name)

    monkeypatch.setattr(Remote, "put", broken)
    test = experiment.play_tests
    monkeypatch.setattr("rl.experiment.play_tests", lambda *words: (gone.append(True), test(*words))[1])
    words = ["--hparams", "ppo_identity", "--hparam_override", "compile=graph", "--train_steps", "1024"]
    words += ["--test_episodes", "1", "--eval_episodes", "1", "--record_video"]
    words += ["--output_dir", address.removesuffix("/run_0")]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert "return, best checkpoint" in out  # and it was tested all the same
    line = err.splitlines()[-1]
    assert line.startswith(f"error: the last state is not at {address}: cannot write {address}/")
    folder = storage_at(address).folder
    assert f"it is in {folder}, and the same command on this machine sends it" in line
    assert "Traceback" not in err and list(folder.glob("videos/best_*.mp4"))
    monkeypatch.setattr(Remote, "put", put)
    monkeypatch.setattr("rl.experiment.play_tests", test)
    assert main(words) == 0
    assert len(Remote(f"{address}/videos").names()) >= 1 and not list(folder.iterdir())


@pytest.mark.parametrize(
    "output, message",
    [
        ("nowhere://bucket/x", "TensorFlow has no file system nowhere:// here; known: file, gs, ram"),
        ("file://{folder}/file/x", "cannot write in file://{folder}/file/x/run_0 ("),
        ("file:///proc/x", "cannot write in file:///proc/x/run_0 ("),
    ],
)
@pytest.mark.parametrize("way", ["command", "python"])
def test_an_output_that_cannot_be_is_one_line_and_nothing_is_written(
    tmp_path, machine, monkeypatch, capsys, way, output, message
):
    output, message = output.format(folder=tmp_path), message.format(folder=tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))
    if way == "python":
        with pytest.raises(UsageError) as error:
            rl.train("ppo_identity", output_dir=output)
        text = str(error.value)
    else:
        assert main(["--hparams", "ppo_identity", "--output_dir", output]) == 2
        out, text = capsys.readouterr()
        assert out == "" and text.startswith("error: ") and text.count("\n") == 1
    assert message in text
    assert set(tmp_path.rglob("*")) == before


# -- processes that are ended

SLOW = """
    import os, time
    from rl.storage import mirror
    from rl.storage.place import Remote
    mirror.REST = 0.3
    put = Remote.put

    def put_unless_blocked(self, path, name):
        if ".data-" in path.name and os.path.exists("blocked"):
            open("waiting", "w").close()
            while True:
                time.sleep(0.1)
        put(self, path, name)

    Remote.put = put_unless_blocked
"""


@pytest.mark.slow
def test_killed_it_goes_on_elsewhere_and_ends_as_the_run_that_was_not(
    tmp_path, machine, command, monkeypatch
):
    """First while it sends its last state after SIGTERM, as where a grace period is too short; then by
    SIGTERM alone."""
    (tmp_path / "slow.py").write_text(textwrap.dedent(SLOW))
    settings = "compile=graph,checkpoint_period=0,log_period=64,eval_period=1024,prioritized=true,n_step=2"
    words = ["--hparams", "dqn_identity", "--hparam_override", settings, "--seed", "5"]
    words += ["--train_steps", "8192", "--eval_episodes", "2", "--test_episodes", "1", "--output_dir"]
    assert main([*words, str(tmp_path / "near")]) == 0
    near, far = tmp_path / "near" / "run_0", tmp_path / "far" / "run_0"

    def start():
        environment = os.environ | {"TMPDIR": str(machine()), "PYTHONPATH": str(tmp_path)}
        flags = [*words, f"file://{far.parent}", "--user_modules", "slow"]
        return command(*flags, wait=False, cwd=tmp_path, env=environment)

    def step():
        return CheckpointManager(far / "checkpoints").latest_step() or 0

    process = start()
    wait_for(lambda: step() > 0 or process.poll() is not None)
    (tmp_path / "blocked").touch()
    wait_for(lambda: (tmp_path / "waiting").exists() or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    killed_at = step()
    assert 0 < killed_at < 8192
    assert get_newest(Remote(f"file://{far}/checkpoints"), tmp_path / "whole") == killed_at
    (tmp_path / "blocked").unlink()

    process = start()
    wait_for(lambda: step() > killed_at or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert killed_at < step() < 8192  # its row is written later where it was asked to stop within a window

    machine()
    monkeypatch.setattr(Remote, "put", Remote.put)  # the module changes both, which is undone then
    monkeypatch.setattr(mirror, "REST", mirror.REST)
    monkeypatch.syspath_prepend(tmp_path)
    assert main([*words, f"file://{far.parent}", "--user_modules", "slow"]) == 0
    assert final_state(f"file://{far}") == final_state(near)
    assert (far / "metrics.csv").read_bytes() == (near / "metrics.csv").read_bytes()
    assert (far / "train.log").read_text().count("resumed at step") == 2
