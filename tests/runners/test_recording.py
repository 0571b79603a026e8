"""Recording of training and of policies: what is in the data set, and that nothing else changes."""

import json

import gymnasium
import numpy as np
import pytest
from marked import rest
from played import SPACES, assert_equal, episodes
from small_runs import TINY, trainer_of

import rl
from rl.cli import main
from rl.data.dataset import Dataset, read, write
from rl.envs.host import Purpose, purpose_seed
from rl.errors import UsageError
from rl.estimate.policy import DataPolicy
from rl.hparams.merge import resolve
from rl.runners.recording import recorded, training_recorder
from rl.signals import StopRequest

DQN = {"compile": "graph", "log_period": 64, "eval_period": 0, "train_steps": 256, "min_replay_size": 32}


EAGER = {"compile": "eager", "train_steps": 128, "model.hidden": (16,), "updates_per_iteration": 2}


def trained(run_dir, hparams, folder=None, stop_at=None, **request):
    """Trains a run, or goes on with it; it dies after the checkpoint of step `stop_at`. Returns its
    variables."""
    trainer = trainer_of(hparams, run_dir, record_data=None if folder is None else str(folder), **request)
    try:
        recorder = training_recorder(trainer.request, str(run_dir), trainer.runner)
        if stop_at is not None:
            real = trainer._write_checkpoint

            def write():
                real()
                raise KeyboardInterrupt

            advance = trainer.runner.advance

            def advanced(iterations, go_on=None):
                made = advance(iterations, go_on)
                if trainer.runner.step >= stop_at:
                    write()
                return made

            trainer.runner.advance = advanced
        with recorded(trainer.runner, recorder, hparams.train_steps):
            trainer.train(StopRequest())
        return {name: np.array(each.numpy()) for name, each in trainer.runner.variables.items()}
    finally:
        trainer.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("es_cartpole", {"compile": "graph", "train_steps": 3000, "eval_period": 0}),
        ("dqn_cartpole", {**DQN, **EAGER, "env_backend": "gym", "num_envs": 2, "rollout_length": 3}),
        ("ppo_pendulum", {**TINY, "env_backend": "gym", "train_steps": 1024, "max_episode_steps": 30}),
        ("dqn_cartpole", {**DQN, "num_envs": 4, "compile": "xla"}),
        ("sac_pendulum", {**DQN, "num_envs": 2, "compile": "xla", "max_episode_steps": 30}),
    ],
)
def test_recording_changes_nothing_and_has_every_finished_episode(
    tmp_path, name, overrides, assert_same_bits
):
    hparams = resolve(name, overrides)
    plain = trained(tmp_path / "plain", hparams)
    state = trained(tmp_path / "recorded", hparams, tmp_path / "data")
    assert_same_bits(state, plain)
    csvs = [(tmp_path / each / "metrics.csv").read_text() for each in ("plain", "recorded")]
    assert csvs[0] == csvs[1]
    lines = csvs[0].splitlines()
    column = lines[0].split(",").index("episode/count")
    data = read(tmp_path / "data")
    finished = sum(float(line.split(",")[column]) for line in lines[1:])
    assert len(data.lengths) == finished > 2
    assert (data.terminated | data.truncated).sum() == len(data.lengths)
    spec = json.loads(data.metadata["env_spec"])
    assert spec["max_episode_steps"] == (hparams.max_episode_steps or 500)
    assert (
        gymnasium.spec(hparams.env).max_episode_steps == {"CartPole-v1": 500, "Pendulum-v1": 200}[hparams.env]
    )
    assert data.env_id == hparams.env and data.metadata["policies"][0]["which"] == "training"
    if hparams.env == "CartPole-v1":
        assert (data.returns == data.lengths).all()
        starts = data.observation[data.starts + np.arange(len(data.starts))]
        assert (np.abs(starts) <= 0.05).all()
        ends = data.observation[np.cumsum(data.lengths + 1) - 1]
        assert ((np.abs(ends[:, 0]) > 2.4) | (np.abs(ends[:, 2]) > 0.2094)).all()
    else:
        assert (np.abs(data.action) <= 2.0).all() and (data.lengths == 30).all()


@pytest.mark.parametrize("backend", ["graph", *rest("gym")])
def test_training_is_recorded_with_the_probabilities_that_the_algorithm_keeps(tmp_path, backend):
    """Of a policy that hardly learns, those are of the policy at the end."""
    settings = {**TINY, "env_backend": backend, "train_steps": 256, "eval_period": 0, "lr": 1e-12}
    settings |= {"compile": "graph" if backend == "graph" else "eager"}
    trained(tmp_path / "run", resolve("ppo_cartpole", settings), tmp_path / "data")
    data = read(tmp_path / "data")
    assert data.log_prob is not None and len(data.log_prob) == len(data.reward)
    agent = trainer_of(
        resolve("ppo_cartpole", settings | {"eval_policy": "sample"}), tmp_path / "other"
    ).agent
    found = DataPolicy(agent, data, "data").log_prob()  # of the same seed
    np.testing.assert_allclose(data.log_prob, found, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_an_in_graph_run_that_is_killed_and_resumed_records_each_episode_once(tmp_path, assert_same_bits):
    overrides = {**TINY, "num_envs": 4, "train_steps": 512, "log_period": 64, "eval_period": 0}
    hparams = resolve("ppo_cartpole", overrides)
    plain = trained(tmp_path / "plain", hparams)
    assert_same_bits(trained(tmp_path / "whole", hparams, tmp_path / "one"), plain)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "killed", hparams, tmp_path / "two", stop_at=192)
    assert_same_bits(trained(tmp_path / "killed", hparams, tmp_path / "two"), plain)
    assert_equal(read(tmp_path / "two", exact=True), read(tmp_path / "one", exact=True))


def test_what_workers_play_is_not_recorded(tmp_path):
    words = ["--hparams", "impala_cartpole", "--num_workers", "2", "--record_data", str(tmp_path / "data")]
    assert main([*words, "--output_dir", str(tmp_path / "run")]) == 2
    assert main([*words[:2], "--record_data", "gs://bucket/data", "--output_dir", str(tmp_path / "run")]) == 2
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_recorded_is_refused_before_a_run_begins(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for place in ("file", "file/below"):
        with pytest.raises(UsageError, match="choose another --record_data"):
            trained(tmp_path / "run", resolve("dqn_cartpole", DQN), tmp_path / place)
    write(tmp_path / "other", Dataset.of(episodes(*SPACES["box"]), *SPACES["box"], {"env_id": "My-v0"}))
    words = ["--hparams", "dqn_cartpole", "--output_dir", str(tmp_path / "run")]
    assert main([*words, "--record_data", str(tmp_path / "other")]) == 2
    assert "holds episodes of My-v0, not of CartPole-v1" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_tested_policy_is_recorded_once_by_command_and_from_python(tmp_path, capsys):
    run, data = tmp_path / "run", tmp_path / "data"
    hparams = resolve("dqn_cartpole", {**DQN, "num_envs": 4, "rollout_length": 1, "train_steps": 64})
    trained(run / "run_0", hparams)
    saved = {"name": "dqn_cartpole", "seed": 0, "hparams": hparams.to_dict()}
    (run / "run_0" / "hparams.json").write_text(json.dumps(saved))
    words = ["--output_dir", str(run), "--training", "False", "--test_episodes", "5"]
    assert main([*words, "--record_data", str(data)]) == 0
    found = read(data)
    assert len(found.lengths) == 5
    (policy,) = found.metadata["policies"]
    assert policy == {
        "hparams": "dqn_cartpole",
        "algorithm": "dqn",
        "run": str(run / "run_0"),
        "which": "best",
        "step": 64,
        "seed": purpose_seed(Purpose.TEST),
        "eval_policy": "greedy",
    }
    evaluation = rl.load(run).evaluate(episodes=3, seed=7, record_data=data)
    found = read(data)
    assert sorted(found.returns[5:]) == sorted(evaluation.returns)
    assert [each["policy"] for each in found.about] == [0] * 5 + [1] * 3
    assert found.metadata["policies"][1]["seed"] == 7
    before = sorted((each, each.read_bytes()) for each in data.rglob("*") if each.is_file())
    assert main([*words, "--record_data", str(data)]) == 2
    assert "holds this policy's episodes already" in capsys.readouterr().err
    with pytest.raises(UsageError, match="the same ones would be played again: record into another folder"):
        rl.load(run).evaluate(episodes=2, seed=7, record_data=data)
    assert sorted((each, each.read_bytes()) for each in data.rglob("*") if each.is_file()) == before
