"""A run that was stopped, or killed, and resumed is to the bit the run that was not."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from small_runs import train, trainer_of
from stop_after import StopAfter

from rl.cli import main
from rl.hparams.merge import resolve
from rl.memory.ring import TRANSITION
from rl.storage.checkpoint import CheckpointManager, read_manifest

TINY = {"num_envs": 4, "rollout_length": 8, "log_period": 64, "train_steps": 640, "eval_period": 256}
PPO = TINY | {"normalize_observation": True, "normalize_reward": True, "lr_schedule": "linear"}
DQN = TINY | {
    "prioritized": True,
    "n_step": 2,
    "normalize_reward": True,
    "noisy": True,
    "act_select": "greedy",
    "replay_capacity": 300,
    "min_replay_size": 100,
    "updates_per_iteration": 4,
    "target_update_period": 7,
}
RUNS = {"ppo": PPO | {"env": "CartPole-v1"}, "dqn": DQN | {"env": "CartPole-v1"}}


# dqn is slow: the run that is killed, below, is one
@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_a_stopped_and_resumed_run_equals_the_uninterrupted_one(
    tmp_path, assert_same_bits, monkeypatch, name
):
    monkeypatch.setattr("rl.runners.in_graph.SHORT", 0.0)  # looks twice an iteration, however fast that is
    hparams = resolve(name, {"compile": "graph", **RUNS[name]})
    step, straight = train(hparams, tmp_path / "straight")
    assert step == 640
    parts = tmp_path / "parts"
    assert train(hparams, parts, looks=1)[0] == 32  # in the middle of a window
    assert train(hparams, parts, looks=16)[0] == 256  # in an evaluation, which looks at each of its steps
    steps = [line.partition(",")[0] for line in (parts / "metrics.csv").read_text().splitlines()]
    assert steps == ["step", "64", "128", "192"]  # the row comes with the evaluation
    train(hparams, parts, looks=60)
    step, resumed = train(hparams, tmp_path / "parts")
    assert step == 640
    assert_same_bits(resumed, straight)
    metrics = (tmp_path / "straight/metrics.csv").read_bytes()
    assert metrics.count(b"\n") == 11
    assert (tmp_path / "parts/metrics.csv").read_bytes() == metrics
    best = [read_manifest(tmp_path / run / "checkpoints/best") for run in ("straight", "parts")]
    assert best[0].meta == best[1].meta and best[0].step == best[1].step
    if name == "ppo":  # a finished run is not trained again
        assert_same_bits(train(hparams, tmp_path / "parts")[1], straight)
        assert (tmp_path / "parts/metrics.csv").read_bytes() == metrics


@pytest.mark.slow
def test_a_host_run_resumes_all_but_its_environments(tmp_path, assert_same_bits):
    hparams = resolve("dqn", {"compile": "graph", **RUNS["dqn"], "env_backend": "gym"})
    step, before = train(hparams, tmp_path, looks=15)
    trainer = trainer_of(hparams, tmp_path, 3)
    try:
        assert trainer.resumed and trainer.runner.step == step == 256
        restored = {name: np.array(each.numpy()) for name, each in trainer.runner.variables.items()}
        assert_same_bits(restored, before)
        acting = np.concatenate([each.reshape(-1) for each in trainer.runner.actor._weights])
        # Matrices are sent transposed.
        learned = [each.numpy().T.reshape(-1) for each in trainer.agent.policy_variables.values()]
        np.testing.assert_array_equal(acting, np.concatenate(learned))
        assert trainer.train(StopAfter()).step == 640
    finally:
        trainer.close()
    rows = (tmp_path / "metrics.csv").read_text().splitlines()[1:]
    assert [int(row.split(",")[0]) for row in rows] == list(range(64, 641, 64))


@pytest.mark.parametrize("stops", [(10,), pytest.param((10, 7), marks=pytest.mark.slow)], ids=["one", "two"])
def test_no_false_transition_is_remembered_where_a_host_run_was_resumed(tmp_path, stops):
    settings = {**RUNS["dqn"], "env_backend": "gym", "replay_capacity": 2000, "compile": "graph"}
    settings["act_backend"] = (
        "compiled"  # a conversion to LiteRT, of each trainer, takes longer than they act
    )
    hparams = resolve("dqn", settings)
    for looks in (*stops, 10**9):
        trainer = trainer_of(hparams, tmp_path, 3)
        trainer.train(StopAfter(looks))
        trainer.close()
    memory = trainer.runner.memory
    memory.check_valid()
    ring = {name: memory.ring.variables[name].numpy() for name in ("observation", "action", "flags")}
    physics = gymnasium.make("CartPole-v1").unwrapped
    physics.reset(seed=0)
    count = int(memory.ring.filled) * 4
    assert count == 640
    checked = 0
    for place in range(count - 4):  # four environments: the successor lies four places on
        if not ring["flags"][place] & TRANSITION:
            continue
        physics.state = ring["observation"][place].astype(np.float64)
        physics.steps_beyond_terminated = None
        expected = physics.step(int(ring["action"][place]))[0]
        np.testing.assert_allclose(ring["observation"][place + 4], expected, rtol=1e-4, atol=1e-5)
        checked += 1
    assert 500 < checked < count - 4


# -- kill -9


def rows(run_dir: Path) -> int:
    path = run_dir / "metrics.csv"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def final_state(run_dir: Path) -> dict[str, np.ndarray]:
    """Everything in the newest checkpoint: weights, optimizer, replay, environments, counters."""
    manager = CheckpointManager(run_dir / "checkpoints")
    path = run_dir / "checkpoints" / f"step_{manager.latest_step():012d}"
    reader = tf.train.load_checkpoint(str(path / read_manifest(path).prefix))
    names = [name for name in reader.get_variable_to_shape_map() if not name.startswith("_CHECKPOINTABLE")]
    return {name: reader.get_tensor(name) for name in sorted(names)}


def kill_again_and_again(command, tmp_path, assert_same_bits, kills, compile_mode, rows_each=16):
    settings = {
        "compile": compile_mode,
        "act_backend": "compiled",  # each of three processes would convert for longer than it evaluates
        "checkpoint_period": 0,
        "log_period": 64,
        "eval_period": 64 * rows_each,
        "prioritized": "true",
        "n_step": 2,
        "normalize_reward": "true",
    }
    override = ",".join(f"{name}={value}" for name, value in settings.items())
    words = [
        "--hparams",
        "dqn_identity",
        "--hparam_override",
        override,
        "--train_steps",
        64 * rows_each * (kills + 1),
    ]
    words += ["--seed", 5, "--eval_episodes", 2, "--test_episodes", 1, "--output_dir"]
    assert main([*map(str, words), str(tmp_path / "straight")]) == 0  # in this process
    moments = random.Random(0)
    killed, run_dir = 0, tmp_path / "killed" / "run_0"
    for _ in range(kills):
        process = command(*words, tmp_path / "killed", wait=False)
        # Some rows further than the last time, then at any moment of computing, logging or saving.
        goal = rows(run_dir) + moments.randrange(1, 12)
        while process.poll() is None and rows(run_dir) < goal:
            time.sleep(0.002)
        time.sleep(moments.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
    assert killed == kills
    assert rows(run_dir) < rows(tmp_path / "straight/run_0")
    assert main([*map(str, words), str(tmp_path / "killed")]) == 0
    assert "resumed at step" in (run_dir / "train.log").read_text()
    assert_same_bits(final_state(run_dir), final_state(tmp_path / "straight/run_0"))
    assert (run_dir / "metrics.csv").read_bytes() == (tmp_path / "straight/run_0/metrics.csv").read_bytes()


@pytest.mark.usefixtures("rewritten_graphs")
def test_killed_and_resumed_it_ends_with_the_same_bits(command, tmp_path, assert_same_bits):
    kill_again_and_again(command, tmp_path, assert_same_bits, 1, "graph", rows_each=10)


@pytest.mark.slow
def test_killed_twenty_times_and_resumed_it_ends_with_the_same_bits(command, tmp_path, assert_same_bits):
    kill_again_and_again(command, tmp_path, assert_same_bits, 20, "xla")
