"""Off-policy estimation of a policy: its probabilities, fitted values of a known process, and the command."""

from __future__ import annotations

import json
import warnings
from types import SimpleNamespace

import numpy as np
import own_data
import pytest
import tensorflow as tf
from gymnasium import spaces

import rl
from rl.agents.algos.registry import get_algo
from rl.data.dataset import Dataset, read
from rl.data.hdf5 import Episode
from rl.envs.of_data import telling
from rl.errors import UsageError
from rl.estimate import behaviour, metrics
from rl.estimate.__main__ import cautions, main
from rl.estimate.behaviour import clone
from rl.estimate.estimators import TITLES, Estimated, estimates
from rl.estimate.fqe import FQE, default_hparams, fitted
from rl.estimate.metrics import DataEstimator
from rl.estimate.policy import DataPolicy, in_blocks
from rl.hparams.merge import resolve
from rl.ops.estimation import discounted, padded

CHAIN = "TwoStateChain-v0"
CHANCES = (0.8, 0.2)
# Of the policy that stays in a state with probability 0.8, discount 0.9: v(1) = 1 + 0.9 0.8 v(1), and v(0) =
# 0.9 (0.8 v(0) + 0.2 v(1)).
VALUE_1 = 1.0 / 0.28
VALUE_0 = 0.18 * VALUE_1 / 0.28
Q = np.array([[0.9 * VALUE_0, 0.9 * VALUE_1], [1.0 + 0.9 * VALUE_1, 1.0]])  # of each state, each action
QUICK = {"compile": "graph", "train_steps": 2000, "model.hidden": (32,)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """400 episodes of the chain by uniformly random actions."""
    path = tmp_path_factory.mktemp("data") / "chain"
    own_data.play(path, CHAIN, episodes=400)
    return str(path)


@pytest.fixture(scope="module")
def data(folder):
    return read(folder)


def agent_of(data, /, name="bc", eval_policy="sample", **overrides):
    """An agent for the data's spaces."""
    settings = {"env": CHAIN, "model.hidden": (8,), "compile": "graph", "eval_policy": eval_policy}
    hparams = resolve(name, settings | overrides)
    return get_algo(hparams.algo)(hparams, data.observation_space, data.action_space, 0)


def known_policy(data, **overrides):
    """The policy of `CHANCES` in both states."""
    agent = agent_of(data, **overrides)
    agent.network.policy.kernel.assign(tf.zeros_like(agent.network.policy.kernel))
    agent.network.policy.bias.assign(np.log(CHANCES))
    return agent


def test_probabilities_are_those_of_the_actions_that_evaluation_takes(data, folder):
    drawn = DataPolicy(known_policy(data), data, folder)
    np.testing.assert_allclose(drawn.log_prob(), np.log(CHANCES)[data.action], rtol=1e-5)
    assert drawn.probabilities().shape == (len(data.reward) + len(data.lengths), 2)
    best = DataPolicy(known_policy(data, eval_policy="greedy"), data, folder)
    np.testing.assert_array_equal(best.log_prob(), np.where(data.action == 0, 0.0, -np.inf))
    often = agent_of(data, "dqn", "greedy", evaluation_epsilon=0.2)
    chances = DataPolicy(often, data, folder).probabilities()
    np.testing.assert_allclose(np.sort(chances, -1), np.tile([0.1, 0.9], (len(chances), 1)), rtol=1e-5)


def test_blocks_are_put_together_in_order():
    rows = np.arange(2500.0)
    spec = (tf.TensorSpec([], tf.float32),)
    found = in_blocks(lambda i, x: x + 10_000.0 * i, spec, rows)
    np.testing.assert_array_equal(found, rows + 10_000.0 * (rows // 1024))


def test_policies_of_which_nobody_knows_the_probabilities_are_refused(data, folder):
    with pytest.raises(UsageError, match="draws its actions, and does not say how likely"):
        DataPolicy(agent_of(data, "dqn", "greedy", act_select="uniform_random"), data, folder)
    with pytest.raises(UsageError, match="ppo with model lstm remembers what was before"):
        DataPolicy(agent_of(data, "ppo", **{"model.name": "lstm"}), data, folder)


@pytest.mark.slow
def test_fitted_values_and_a_cloned_behaviour_are_those_of_the_known_process(data, folder):
    """Episodes are cut after 8 steps, which the values do not know of: they are of the process without it."""
    policy = DataPolicy(known_policy(data), data, folder)
    values, _ = fitted(policy, data, default_hparams(policy.agent.hparams, folder, 0.9, QUICK), seed=0)
    before = np.arange(len(data.reward)) + np.repeat(np.arange(len(data.lengths)), data.lengths)
    state = data.observation[before].argmax(-1)
    np.testing.assert_allclose(values.q, Q[state, data.action], atol=0.1)
    np.testing.assert_allclose(values.value[before], np.array([VALUE_0, VALUE_1])[state], atol=0.1)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(behaviour, "UPDATES", 500)
        cloned = DataPolicy(clone(data, folder, policy.agent.hparams, 0), data, folder)
    np.testing.assert_allclose(np.exp(cloned.log_prob()), 0.5, atol=0.06)

    log_ratio = policy.log_prob() - np.log(0.5)
    found = estimates(list(TITLES), data, 0.9, log_ratio, values)
    known = (VALUE_0 + VALUE_1) / 2.0  # episodes start in either state
    for name in ("dm", "dr", "wdr"):
        assert found[name].low < known < found[name].high, name
    # What is not bootstrapped misses what comes after 8 steps: in state 1, 0.72^8 of the value, and in state
    # 0, 0.72^8 v(0) + 8 0.18 0.72^7 v(1).
    missed = 0.72**8 * (VALUE_0 + VALUE_1) / 2.0 + 8 * 0.18 * 0.72**7 * VALUE_1 / 2.0
    for name in ("is", "wis", "pdis", "wpdis"):
        assert found[name].low < known - missed < found[name].high, name
    assert found["data"].high < known - missed


@pytest.mark.slow
def test_values_of_continuous_actions_are_fitted_to_the_policys_own():
    """One step, then the end, of reward a: the value is the policy's action."""
    rng, box = np.random.default_rng(0), spaces.Box(-1.0, 1.0, (1,), np.float32)
    over, going = np.array([True]), np.array([False])
    episodes = [
        Episode(np.zeros((2, 1), np.float32), a[None], a, over, going)
        for a in rng.uniform(-1, 1, (300, 1)).astype(np.float32)
    ]
    data = Dataset.of(episodes, spaces.Box(-1.0, 1.0, (1,), np.float32), box)
    agent = agent_of(data, "td3", "greedy")
    agent.network.policy.kernel.assign(tf.zeros_like(agent.network.policy.kernel))
    agent.network.policy.bias.assign([np.arctanh(0.4)])
    policy = DataPolicy(agent, data, "data")
    assert not policy.has_density
    values, _ = fitted(policy, data, default_hparams(agent.hparams, "data", 0.9, QUICK), seed=0)
    np.testing.assert_allclose(values.value[::2], 0.4, atol=0.05)
    np.testing.assert_allclose(values.q, data.action[:, 0], atol=0.1)


def test_actions_beyond_a_bound_are_valued_as_the_bound_that_is_played():
    """A policy whose mean is 2 in a space that ends at 1: of reward a, each step is worth 1."""
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    over, going = np.array([True]), np.array([False])
    episodes = [
        Episode(np.zeros((2, 1), np.float32), a[None], a, over, going)
        for a in np.random.default_rng(0).uniform(-1, 1, (100, 1)).astype(np.float32)
    ]
    data = Dataset.of(episodes, spaces.Box(-1.0, 1.0, (1,), np.float32), box)
    for eval_policy, least in (("greedy", 1.0), ("sample", 0.2)):
        agent = agent_of(data, "ppo", eval_policy)
        agent.network.policy.kernel.assign(tf.zeros_like(agent.network.policy.kernel))
        agent.network.policy.bias.assign([2.0])
        actions = DataPolicy(agent, data, "data").actions()
        assert actions.max() == 1.0 and actions.min() >= -1.0 and (actions == 1.0).mean() > 0.5
        assert actions.min() <= least
    fit = default_hparams(agent.hparams, "data", 0.9, QUICK | {"train_steps": 1})
    values = FQE(fit, data, actions, 0)
    beyond, bound = (values.q(tf.zeros([1, 1]), tf.constant([[a]])).numpy() for a in (2.0, 1.0))
    np.testing.assert_array_equal(beyond, bound)


def test_the_mean_ratio_of_an_episode_is_by_hand(data):
    log_ratio = np.where(data.action == 0, np.log(1.6), np.log(0.4))
    first = np.repeat(np.arange(len(data.lengths)), data.lengths)
    by_hand = np.exp(np.bincount(first, log_ratio)).mean()
    found = estimates(["is"], data, 0.9, log_ratio, None)
    assert list(found) == ["data", "is", "episode_ratio"]
    np.testing.assert_allclose(found["episode_ratio"].estimate, by_hand)
    assert found["episode_ratio"].low < by_hand < found["episode_ratio"].high


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on the chain of a few steps."""
    settings = {"compile": "graph", "num_envs": 2, "rollout_length": 8, "minibatches": 1, "epochs": 1}
    path = tmp_path_factory.mktemp("runs") / "chain"
    rl.train("ppo", env=CHAIN, output_dir=path, train_steps=64, log_period=64, eval_episodes=2, **settings)
    return str(path)


@pytest.mark.slow
def test_a_policy_that_draws_its_actions_is_recorded_with_their_probabilities(run, tmp_path, capsys):
    played = rl.load(run, eval_policy="sample")
    played.evaluate(5, record_data=tmp_path)
    data = read(tmp_path)
    found = DataPolicy(played.agent, data, "data").log_prob()
    np.testing.assert_allclose(data.log_prob, found, rtol=1e-4, atol=1e-6)
    assert found.min() < -0.1
    words = ["--run", run, "--data", str(tmp_path), "--eval_policy", "sample", "--estimators", "is"]
    assert main([*words, "--json"]) == 0
    estimated = json.loads(capsys.readouterr().out)
    assert estimated["behaviour"] == "recorded with the data"
    rows = estimated["estimates"]  # of the policy that played
    assert rows["is"]["estimate"] == pytest.approx(rows["data"]["estimate"], rel=1e-4)
    assert rows["is"]["effective_sample_size"] == pytest.approx(5.0, rel=1e-4)
    rl.load(run, eval_policy="greedy").evaluate(1, record_data=tmp_path)
    both = read(tmp_path)
    np.testing.assert_array_equal(both.log_prob[: len(data.log_prob)], data.log_prob)
    assert np.isnan(both.log_prob[len(data.log_prob) :]).all(), "nobody knows those of best actions"
    assert behaviour.recorded(both) is None and behaviour.recorded(data) is not None


def test_the_command_prints_a_table_or_json(run, folder, capsys, monkeypatch):
    monkeypatch.setattr(behaviour, "UPDATES", 100)
    words = ["--run", run, "--data", folder, "--eval_policy", "sample"]
    assert main([*words, "--json", "--hparam_override", "train_steps=100,compile=graph"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["estimates"]) == ["data", *TITLES] and found["gamma"] == 0.99
    assert found["behaviour"].startswith("cloned from the data")
    own = found["estimates"]["data"]
    assert own["low"] < own["estimate"] < own["high"] and own["effective_sample_size"] == 400
    assert main([*words, "--estimators", "wpdis", "--gamma", "0.9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"policy     {run}, best, sample" and "returns    discounted by 0.9 a step" in lines
    assert [line.split()[0] for line in lines[5:]] == ["estimator", "data", "wpdis"]


def test_what_makes_estimates_doubtful_is_said():
    few, many = (Estimated(1.0, 0.5, 1.5, size) for size in (3.2, 51.0))
    assert cautions({"data": many, "wis": many}, 1000) == []
    assert cautions({"data": many, "is": many}, 100, Estimated(0.9, 0.7, 1.1, 51.0)) == []
    lacking = Estimated(0.33, 0.21, 0.48, 51.0)
    assert cautions({"data": many, "wis": many, "wpdis": many}, 100, lacking) == []
    (line,) = cautions({"data": many, "is": many, "pdis": many, "wis": many}, 100, lacking)
    assert line.startswith(
        "the importance ratios of episodes average 0.33 (0.21 to 0.48), where they should 1:"
    )
    assert "is, pdis are wrong by more than their intervals" in line
    assert [line[:40] for line in cautions({"data": few, "wis": few}, 100)] == [
        "importance ratios rest on 3.2 episodes: "
    ]
    assert [line[:28] for line in cautions({"data": few, "dm": few}, 100)] == ["the intervals of dm, dr and "]
    assert len(cautions({"data": many, "dr": few}, 100)) == 2
    one = Estimated(1.0, 1.0, 1.0, 1.0)
    assert cautions({"data": one, "wis": one}, 3)[0].startswith("importance ratios rest on 1.0 episodes")
    assert [line[:35] for line in cautions({"data": one, "wis": one}, 1)] == [
        "one episode does not tell how far re"[:35]
    ]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"--run": "nowhere"}, "there is no run in nowhere"),
        ({"--data": "nowhere"}, "there is no data set nowhere"),
        ({"--estimators": "wdir"}, "unknown estimator 'wdir': did you mean wdr"),
        ({"--which": "first"}, "argument --which: no 'first': known: best, last"),
        ({"--gamma": "1.5"}, "needs a number from 0 to 1"),
        ({"--hparam_override": "lrr=1"}, "unknown hparam 'lrr': did you mean lr"),
        ({"--hparam_override": "return_span=1"}, "return_span: it is none of fitted Q evaluation's"),
        ({"--hparam_override": "gamma=0.5"}, "gamma: it is none of fitted Q evaluation's (--gamma)"),
    ],
)
def test_mistakes_are_one_line(run, folder, capsys, changed, said):
    words = {"--run": run, "--data": folder} | changed
    assert main([word for pair in words.items() for word in pair]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and said in captured.err


def test_a_run_beside_is_named_and_data_of_another_environment_refused(run, tmp_path, capsys):
    assert main(["--run", f"{run}s", "--data", "x"]) == 2
    assert "did you mean chain?" in capsys.readouterr().err
    own_data.play(tmp_path, "CartPole-v1", episodes=2)
    assert main(["--run", run, "--data", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert f"with observations Box(0.0, 1.0, (2,), float32), the data in {tmp_path}, of CartPole-v1" in err


def test_a_policy_that_never_does_what_was_done_has_no_estimate(folder):
    estimator = DataEstimator.__new__(DataEstimator)
    estimator._data, estimator._gamma = read(folder), 0.9
    estimator._played = np.zeros(len(estimator._data.reward))
    estimator._policy = SimpleNamespace(log_prob=lambda: np.full(len(estimator._played), -np.inf))
    assert estimator.metrics() == {"estimate/effective_sample_size": 0.0}
    estimator._policy = SimpleNamespace(log_prob=lambda: np.full(len(estimator._played), 1e3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # ratios beyond float64
        assert "estimate/wis" in estimator.metrics()


def test_data_tell_the_step_before_to_a_policy_that_sees_it(run, folder, data, capsys, monkeypatch):
    """Of data that were recorded without; the policy is that of who played, so all ratios are 1."""
    own = {"data": folder, "previous_action_reward": True}
    agent = agent_of(telling(resolve("bc", own), data), **own)
    monkeypatch.setattr(metrics, "clone", lambda *_: agent)
    monkeypatch.setattr(behaviour, "clone", lambda *_: agent)
    monkeypatch.setattr(rl.api, "load", lambda *_: SimpleNamespace(agent=agent))
    mean = pytest.approx(float(discounted(padded(data.reward, data.lengths), 0.99).mean()), rel=1e-5)
    assert DataEstimator(agent, 0).metrics()["estimate/wis"] == mean
    assert main(["--run", run, "--data", folder, "--estimators", "wis", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["estimates"]["wis"]["estimate"] == mean


def test_an_offline_run_logs_estimates_beside_its_evaluations(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(behaviour, "UPDATES", 100)
    settings = {"compile": "graph", "train_steps": 100, "log_period": 50, "eval_period": 50}
    done = rl.train("bc", data=folder, output_dir=tmp_path, eval_episodes=1, estimate=True, **settings)
    header, *rows = (done.run_dir / "metrics.csv").read_text().splitlines()
    found = [dict(zip(header.split(","), row.split(","), strict=True)) for row in rows]
    assert len(found) == 2
    for row in found:
        for name in ("is", "wis", "pdis", "wpdis"):
            low, found, high = (float(row[f"estimate/{name}{end}"]) for end in ("_low", "", "_high"))
            assert 0.0 < low < found < high and found < 8.0
        assert 1.0 <= float(row["estimate/effective_sample_size"]) <= 400.0
    with pytest.raises(UsageError, match="estimates are from data, take memory=dataset"):
        rl.train("dqn_cartpole", estimate=True)
