"""Exploration of deterministic policies: Gaussian and Ornstein-Uhlenbeck noise, random first actions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import constant_actor
from marked import rest
from scipy import stats

from rl.agents.algos.act_select.random_start import random_start
from rl.agents.algos.act_select.registry import get_act_select
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.ops.distributions import Categorical, Deterministic, DiagonalGaussian
from rl.types import PolicyOutput

UNLIKELY = 1e-4
MANY = 20_000
SEED = random.key(0)
STEP = tf.constant(0, tf.int64)
LOW, HIGH = np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)
BOX = spaces.Box(LOW, HIGH)


def selector(name, **overrides):
    return get_act_select(name)(resolve("ddpg_identity", overrides))


def output(action, bounded=True):
    bounds = (LOW, HIGH) if bounded else ()
    return PolicyOutput(distribution=Deterministic(tf.constant(action, tf.float32), *bounds))


def test_gaussian_noise_is_measured_in_half_ranges():
    select = selector("gaussian_noise", exploration_noise=0.1)
    action, log_prob = select(output([[0.5, 0.4]] * MANY), SEED, STEP, True)
    for column, mean, std in zip(action.numpy().T, (0.5, 0.4), (0.2, 0.05), strict=True):
        assert stats.kstest(column, stats.norm(mean, std).cdf).pvalue > UNLIKELY
    assert log_prob.shape == (MANY,)


@pytest.mark.parametrize("name", ["gaussian_noise", "ou_noise"])
def test_noise_that_is_annealed_falls_with_the_steps(name):
    select = selector(name, exploration_noise=0.1, anneal={"exploration_noise": 0.02}, train_steps=100)
    state = () if name == "gaussian_noise" else (tf.zeros([1, 2]),)
    noise = []
    for step in (0, 50, 100):
        found = select(output([[0.5, 0.4]]), SEED, tf.constant(step, tf.int64), True, *state)[0]
        noise.append(found.numpy()[0] - [0.5, 0.4])
    np.testing.assert_allclose(noise[1], 0.6 * noise[0], rtol=1e-4)
    np.testing.assert_allclose(noise[2], 0.2 * noise[0], rtol=1e-4)


def test_gaussian_noise_stays_within_the_bounds():
    select = selector("gaussian_noise", exploration_noise=3.0)
    action = select(output([[1.9, 0.5]] * MANY), SEED, STEP, True)[0]
    np.testing.assert_array_equal(action.numpy().min(0), LOW)
    np.testing.assert_array_equal(action.numpy().max(0), HIGH)


def test_gaussian_noise_without_bounds_is_added_as_it_is():
    select = selector("gaussian_noise", exploration_noise=2.0)
    action = select(output([[3.0]] * MANY, bounded=False), SEED, STEP, True)[0]
    assert stats.kstest(action.numpy()[:, 0], stats.norm(3.0, 2.0).cdf).pvalue > UNLIKELY


def test_no_noise_in_evaluation():
    expected = [[0.5, 0.4], [-1.0, 0.1]]
    action = selector("gaussian_noise", exploration_noise=1.0)(output(expected), SEED, STEP, False)[0]
    np.testing.assert_array_equal(action, tf.constant(expected))
    select = selector("ou_noise", exploration_noise=1.0)
    action, _, state = select(output(expected), SEED, STEP, False, select.initial_state(BOX, 2) + 0.7)
    np.testing.assert_array_equal(action, tf.constant(expected))
    np.testing.assert_array_equal(state, np.full((2, 2), 0.7, np.float32))


def test_discrete_actions_are_sampled_in_training_and_greedy_in_evaluation():
    chances = np.array([0.2, 0.5, 0.3], np.float32)
    given = PolicyOutput(distribution=Categorical(tf.repeat(tf.math.log([chances]), MANY, 0)))
    action, log_prob = selector("gaussian_noise")(given, SEED, STEP, True)
    assert stats.chisquare(np.bincount(action, minlength=3), chances * MANY).pvalue > UNLIKELY
    np.testing.assert_allclose(log_prob, np.log(chances)[action], rtol=1e-4)
    assert (selector("gaussian_noise")(given, SEED, STEP, False)[0].numpy() == 1).all()


def test_ou_noise_follows_its_recurrence_from_zero():
    # x1 = 0.3 n1, x2 = (1 - 0.25) x1 + 0.3 n2; the action moves by half ranges of x.
    select = selector("ou_noise", exploration_noise=0.3, ou_theta=0.25)
    state = select.initial_state(BOX, 3)
    np.testing.assert_array_equal(state, np.zeros((3, 2)))
    given = output([[0.1, 0.5]] * 3)
    x = np.zeros((3, 2))
    for i in range(3):
        action, _, state = select(given, random.key(i), STEP, True, state)
        x = 0.75 * x + 0.3 * random.normal(random.key(i), [3, 2]).numpy()
        np.testing.assert_allclose(state, x, rtol=1e-5, atol=1e-6)
        expected = np.clip(np.array([0.1, 0.5]) + x * [2.0, 0.5], LOW, HIGH)
        np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-6)


def test_ou_noise_becomes_as_wide_and_as_correlated_as_the_process():
    # Stationary variance sigma^2 / (1 - (1 - theta)^2), correlation of neighbours 1 - theta.
    select = selector("ou_noise", exploration_noise=0.2, ou_theta=0.15)
    given = output(np.zeros((MANY, 2)))
    state = select.initial_state(BOX, MANY)
    history = []
    for i in range(40):
        state = select(given, random.key(i), STEP, True, state)[2]
        history.append(state.numpy()[:, 0])
    np.testing.assert_allclose(history[-1].std(), 0.2 / np.sqrt(1.0 - 0.85**2), rtol=0.03)
    np.testing.assert_allclose(np.corrcoef(history[-1], history[-2])[0, 1], 0.85, atol=0.02)


def test_ou_noise_moves_the_logits_of_discrete_actions_and_never_to_an_illegal_one():
    select = selector("ou_noise", exploration_noise=5.0)
    state = select.initial_state(spaces.Discrete(3), 500)
    assert state.shape == (500, 3)
    given = PolicyOutput(distribution=Categorical(tf.constant([[0.0, 0.5, -1e9]] * 500)))
    action = select(given, SEED, STEP, True, state)[0]
    assert set(action.numpy()) == {0, 1} and action.dtype == tf.int32


@pytest.mark.parametrize("name", ["gaussian_noise", "ou_noise"])
def test_noise_is_refused_where_it_does_not_fit(name):
    select = selector(name)
    stochastic = PolicyOutput(distribution=DiagonalGaussian(tf.zeros([1, 2]), tf.zeros(2)))
    state = () if name == "gaussian_noise" else (select.initial_state(BOX, 1),)
    with pytest.raises(
        UsageError, match=f"act_select {name} adds noise to deterministic policies .*: take sample"
    ):
        select(stochastic, SEED, STEP, True, *state)
    other = get_act_select(name)(resolve("ppo_identity", {}))
    with pytest.raises(UsageError, match=r"which ppo lacks"):
        other(output([[0.0, 0.0]]), SEED, STEP, True, *state)


@pytest.mark.parametrize(
    ("backend", "length", "fresh"),
    [("graph", 6, True), *rest(("gym", 5, False), ("graph", 5, False), ("gym", 6, True))],
)
def test_ou_noise_starts_anew_after_an_episode(build, backend, length, fresh):
    # Episodes of 5 steps: the sixth step is the autoreset.
    runner = build(
        "ddpg_pendulum",
        act_select="ou_noise",
        env_backend=backend,
        max_episode_steps=5,
        num_envs=2,
        rollout_length=length,
    )
    runner.run(1)
    if backend == "graph":
        state = runner._carry.recurrent_state["act_select"].numpy()
    else:
        (state,) = runner.actor._state
    assert state.shape == (2, 1)
    assert (state == 0.0).all() if fresh else (state != 0.0).all()


def test_the_first_actions_are_uniform_between_the_bounds():
    action = tf.zeros([MANY, 2])
    found = random_start(action, BOX, None, SEED, tf.constant(99, tf.int64), 100).numpy()
    for column, low, high in zip(found.T, LOW, HIGH, strict=True):
        assert stats.kstest(column, "uniform", (low, high - low)).pvalue > UNLIKELY
    late = random_start(action, BOX, None, SEED, tf.constant(100, tf.int64), 100)
    np.testing.assert_array_equal(late, action)


def test_the_first_discrete_actions_are_uniform_among_the_legal_ones():
    action, space = tf.zeros([MANY], tf.int32), spaces.Discrete(3)
    found = random_start(action, space, None, SEED, STEP, 1)
    assert stats.chisquare(np.bincount(found, minlength=3)).pvalue > UNLIKELY
    legal = tf.repeat([[True, False, True]], MANY, 0)
    counts = np.bincount(random_start(action, space, legal, SEED, STEP, 1), minlength=3)
    assert counts[1] == 0 and stats.chisquare(counts[[0, 2]]).pvalue > UNLIKELY


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_agents_start_with_random_actions_in_training_only(make_agent, algo):
    agent = make_agent(algo, action_space=BOX, random_steps=10)
    observation = random.normal(SEED, [500, 3])
    state = agent.initial_state(500)
    constant_actor(agent.network, np.zeros(agent.network.policy.bias.shape))
    policy = agent.act(observation, state, SEED, STEP, False)[0].numpy()
    np.testing.assert_allclose(policy, [[0.0, 0.5]] * 500, atol=1e-6)  # the middle of the bounds
    early = agent.act(observation, state, SEED, tf.constant(9, tf.int64), True)[0].numpy()
    assert stats.kstest(early[:, 0], "uniform", (-2.0, 4.0)).pvalue > UNLIKELY
    late = agent.act(observation, state, SEED, tf.constant(10, tf.int64), True)[0].numpy()
    assert (late != early).all()


def test_ou_noise_of_a_scalar_box_is_a_number_for_each_environment():
    select, scalar = selector("ou_noise", exploration_noise=0.3), spaces.Box(-1.0, 1.0, ())
    state = select.initial_state(scalar, 4)
    given = PolicyOutput(distribution=Deterministic(tf.zeros([4]), np.float32(-1.0), np.float32(1.0)))
    action, _, state = select(given, SEED, STEP, True, state)
    assert action.shape == state.shape == (4,)
