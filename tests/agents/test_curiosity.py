"""Curiosity in a run: what is rewarded, what is learned, what is saved, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import rest, slow
from walked import save_restore_and_repeat, state

from rl.agents.curiosity import ICM, RND, Moves, make_curiosity
from rl.cli import main
from rl.envs.host import action_view
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners import curious
from rl.runners.build import build_runner
from rl.types import Trajectory
from rl.workers.plan import Workers

SEED = random.key(0)
BOX, ACTIONS = spaces.Box(-5.0, 5.0, (3,), np.float32), spaces.Discrete(3)
TINY = {"model.hidden": (8,), "curiosity_features": 4}
PPO = {"env": "Identity-v0", "num_envs": 2, "rollout_length": 8, "minibatches": 2, "epochs": 1, **TINY}
DQN = {"num_envs": 2, "min_replay_size": 8, "batch_size": 8, **TINY}
FEW = {"updates_per_iteration": 2}


@pytest.fixture(autouse=True)
def _eager():
    yield
    tf.config.run_functions_eagerly(False)


def module(kind, action_space=ACTIONS, **overrides):
    overrides = {"env": "Test-v0", "curiosity": kind, "num_envs": 1, **TINY, **overrides}
    return make_curiosity(resolve("ppo", overrides), BOX, action_space, 0)


def rollout(count, ended=(), reward=0.0, action=None):
    """One environment; ended: steps that terminate, each followed by one of mask 0."""
    observation = np.random.default_rng(1).normal(size=(count + 1, 1, 3)).astype(np.float32)
    terminated = np.zeros((count, 1), bool)
    terminated[list(ended)] = True
    mask = 1.0 - np.concatenate([[[False]], terminated[:-1]]).astype(np.float32)
    action = tf.zeros([count, 1], tf.int32) if action is None else action
    rest = tf.fill([count, 1], reward), tf.constant(terminated), tf.zeros([count, 1], tf.bool)
    return Trajectory(tf.constant(observation), action, *rest, tf.constant(mask), {})


def test_rnd_divides_by_the_deviation_of_intrinsic_returns_which_no_episode_ends(monkeypatch):
    found = module("rnd", curiosity_coef=0.5)
    errors = tf.constant([1.0, 2.0, 0.0])
    monkeypatch.setattr(found, "loss", lambda moves: errors)
    monkeypatch.setattr(found, "_learn", lambda *_: tf.constant(0.0))
    played = rollout(3, ended=[0], reward=10.0)
    found.observe(played)
    # Returns 1, the step of mask 0: 0.99, then 0.99^2; of the two that count, half the difference.
    deviation = (1.0 - 0.9801) / 2
    assert isinstance(found, RND)
    np.testing.assert_allclose(found.scale.moments.variance, [deviation**2], rtol=1e-4)
    errors = tf.constant([1.0, 2.0, 0.01])
    rewarded, metrics = found.rewarded(played, SEED)
    scale = np.sqrt(deviation**2 + 1e-8)
    np.testing.assert_allclose(rewarded.reward[:, 0], [10 + 0.5 / scale, 10.0, 10 + 0.005 / scale], rtol=1e-4)
    np.testing.assert_allclose(metrics["intrinsic_reward"], 0.5 * (1.0 + 0.01) / 2 / scale, rtol=1e-4)


def test_rnd_s_networks_see_observations_whitened_and_the_target_never_learns():
    found = module("rnd", curiosity_minibatches=1, curiosity_lr=1e-2)
    played = rollout(200)
    found.observe(played)
    seen = played.observation[1:, 0].numpy()
    np.testing.assert_allclose(found.moments.mean, seen.mean(0), atol=1e-5)
    np.testing.assert_allclose(found.moments.variance, seen.var(0), rtol=1e-4)
    white = (seen - seen.mean(0)) / seen.std(0)
    moves = Moves(
        played.observation[:-1, 0], played.action[:, 0], played.observation[1:, 0], played.mask[:, 0]
    )
    error = np.mean(np.square(found.predictor(white) - found.target(white)), -1)
    np.testing.assert_allclose(found.loss(moves), error, rtol=1e-3, atol=1e-5)
    target = [np.array(each) for each in found.target.variables]
    first = found.rewarded(played, SEED)[1]
    for i in range(30):
        last = found.rewarded(played, random.key(i))[1]
    assert last["curiosity_loss"] < 0.5 * first["curiosity_loss"], "what was seen often is not new"
    assert last["intrinsic_reward"] < 0.5 * first["intrinsic_reward"]
    for before, now in zip(target, found.target.variables, strict=True):
        np.testing.assert_array_equal(before, now)


@pytest.mark.parametrize("action_space", [ACTIONS, spaces.Box(-1.0, 1.0, (2,), np.float32)])
def test_icm_rewards_what_its_forward_model_missed(action_space):
    found = module("icm", action_space, curiosity_coef=0.3, curiosity_minibatches=1)
    assert isinstance(found, ICM)
    action = np.random.default_rng(2).normal(size=(5, 1, 2)).astype(np.float32)
    discrete = action_space is ACTIONS
    action = tf.constant([[0], [1], [2], [1], [0]]) if discrete else tf.constant(action)
    played = rollout(5, ended=[2], reward=1.0, action=action)
    features = found.features(played.observation[:, 0])
    encoded = np.eye(3, dtype=np.float32)[action[:, 0]] if discrete else action[:, 0].numpy()
    predicted = found.forward(np.concatenate([features[:-1], encoded], -1))
    error = 0.5 * np.square(predicted - features[1:]).sum(-1) * [1, 1, 1, 0, 1]
    answers = found.inverse(np.concatenate([features[:-1], features[1:]], -1)).numpy()
    if discrete:
        nll = -tf.nn.log_softmax(answers).numpy()[np.arange(5), action[:, 0]]
    else:
        nll = (0.5 * np.square(answers - encoded) + 0.5 * np.log(2 * np.pi)).sum(-1)
    rewarded, metrics = found.rewarded(played, SEED)
    np.testing.assert_allclose(rewarded.reward[:, 0], 1.0 + 0.3 * error, rtol=1e-4)
    loss = (0.2 * error + 0.8 * nll * [1, 1, 1, 0, 1]).sum() / 4
    np.testing.assert_allclose(metrics["curiosity_loss"], loss, rtol=1e-4)


def test_icm_tells_actions_apart_from_whatever_number_the_environment_counts_them():
    found = module("icm", action_view(spaces.MultiDiscrete([3, 2], start=[10, -7])))
    action = tf.constant([[0, 0], [0, 1], [2, 1]])  # an agent's count from 0
    rows = tf.ones([3, 3])
    assert len(set(found.bonus(Moves(rows, action, rows, tf.ones([3]))).numpy().tolist())) == 3


@pytest.mark.parametrize("kind", ["icm", "rnd"])
def test_what_is_no_number_changes_nothing(kind):
    found = module(kind)
    found.observe(rollout(8))
    before = {name: np.array(each) for name, each in found.variables.items() if "learning_rate" not in name}
    played = rollout(8)
    _, metrics = found.rewarded(played._replace(observation=played.observation * np.nan), SEED)
    for name, value in before.items():
        np.testing.assert_array_equal(found.variables[name], value, err_msg=name)
    assert all(np.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("ppo_identity", {**PPO, "curiosity": "icm"}),
        slow("ppo_identity", **PPO, curiosity="rnd", curiosity_minibatches=3, normalize_reward=True),
        slow("dqn_identity", **DQN, curiosity="rnd", n_step=2),
        slow("r2d2_cartpole", **DQN, env="Identity-v0", curiosity="icm", replay_capacity=2_000),
    ],
)
def test_a_run_goes_on_to_the_bit(build, tmp_path, name, overrides):
    if name.startswith("r2d2"):
        overrides = overrides | {
            "model.recurrent_units": 4,
            "rollout_length": 4,
            "burn_in": 2,
            "unroll_length": 6,
        }
    runner, before = save_restore_and_repeat(build, tmp_path, name, {"env_backend": "graph", **overrides})
    after = state(runner)
    learned = [key for key in after if key.startswith("curiosity/") and key.endswith("kernel")]
    assert all((after[key] != before[key]).any() for key in learned if "target" not in key)
    assert learned
    row = runner.row()
    assert row["train/intrinsic_reward"] > 0.0
    assert np.isfinite(row["train/curiosity_loss"])


@pytest.mark.parametrize(("name", "overrides"), [("ppo_identity", PPO), *rest(("dqn_identity", DQN))])
def test_it_is_off_by_default_and_touches_nothing_that_the_agent_draws(build, name, overrides):
    overrides = {**overrides, "compile": "eager"}
    plain, curious_of_nothing = (
        build(name, **overrides),
        build(name, curiosity="rnd", curiosity_coef=0.0, **overrides),
    )
    for runner in (plain, curious_of_nothing):
        runner.run(3)
    expected, found = state(plain), state(curious_of_nothing)
    assert not any(key.startswith("curiosity") for key in expected)
    for key, value in expected.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def test_a_memory_keeps_rewards_as_they_came_and_what_is_sampled_is_rewarded_anew(build):
    runner = build("dqn_identity", compile="eager", curiosity="rnd", curiosity_coef=100.0, **DQN | FEW)
    batches, learn = [], runner.agent.learn

    def noting(batch, seed):
        if tf.executing_eagerly():  # not where names of metrics are found out
            batches.append(batch)
        return learn(batch, seed)

    runner.agent.learn = noting
    runner.run(3)
    assert set(np.unique(runner.memory.ring.reward(tf.range(8)).numpy())) <= {0.0, 1.0}
    assert batches[0].reward.numpy().max() > 2.0


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--hparams", "es_cartpole"], "es compares parameters by the returns of their episodes"),
        (["--hparams", "ppo", "--env", "MultiCartPole-v0"], "is for one agent, MultiCartPole-v0 has several"),
        (["--hparams", "qmix_two_step"], "is for one agent, TwoStepGame-v0 has several"),
    ],
)
def test_where_there_can_be_none_it_is_one_line_and_nothing_is_written(words, line, tmp_path, capsys):
    more = ["--hparam_override", "curiosity=rnd", "--output_dir", str(tmp_path / "run")]
    assert main([*words, *more]) == 2
    shown = capsys.readouterr().err.strip()
    assert line in shown
    assert len(shown.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_data_and_several_devices_are_refused(monkeypatch):
    def refused(name, workers=None, **overrides):
        with pytest.raises(UsageError) as caught:
            build_runner(resolve(name, {"curiosity": "icm", **overrides}), 0, workers)
        return str(caught.value)

    class Two:
        count = 2

    assert "plays nothing" in refused("cql_discrete-dqn_identity", data="somewhere", memory="dataset")
    assert "learns from others here" in refused("dqn_identity", data="somewhere")
    for name, several in (("impala_cartpole", {"num_learners": 2}), ("dqn_identity", {"buffer_shards": 1})):
        assert "leave num_learners and buffer_shards out" in refused(name, Workers(2), **several)
    monkeypatch.setattr(curious, "Devices", lambda strategy: Two())
    assert "on one device, show it one of them" in refused("ppo_identity")


def test_other_names_are_refused():
    with pytest.raises(UsageError, match="curiosity='rdn'"):
        resolve("ppo_identity", {"curiosity": "rdn"})
