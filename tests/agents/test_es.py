"""ES: its update from literal scores and directions, what a population acts like, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import Trajectory

SEED = random.key(0)
STEP = tf.constant(0, tf.int64)
MASKED = spaces.Dict({"number": spaces.Box(-1.0, 1.0, (3,)), "action_mask": spaces.MultiBinary(3)})


@pytest.fixture
def agent_of(make_agent):
    """An ES agent of a linear policy with a population of 4, plain gradient steps of size 0.1."""

    def make(**overrides):
        settings = {"num_envs": 4, "rollout_length": 2, "model.hidden": (), "optimizer": "sgd", "lr": 0.1}
        return make_agent("es", **{**settings, "perturbation_std": 0.5, **overrides})

    return make


def rollout(reward):
    """A trajectory of rewards [T, B] in which no episode ends."""
    reward = tf.constant(reward, tf.float32)
    length, count = reward.shape
    never = tf.zeros(reward.shape, tf.bool)
    observation, action = tf.zeros([length + 1, count, 3]), tf.zeros([length, count], tf.int32)
    return Trajectory(observation, action, reward, never, never, tf.ones(reward.shape), {})


def parameters(agent):
    return np.concatenate([each.numpy().reshape(-1) for each in agent.network.trainable_variables])


def test_the_update_follows_the_ranked_directions(agent_of):
    agent = agent_of()
    agent.resample_noise(SEED)
    noise, before = agent.population.noise.numpy(), parameters(agent)
    assert noise.shape == (2, 12)
    # Scores 9, -1, 3, 2: centred ranks 3/6, -3/6, 1/6, -1/6; differences in the pairs 1/3 and -1/3.
    metrics = agent.update(rollout([[4.0, 0.0, 1.0, 2.0], [5.0, -1.0, 2.0, 0.0]]), SEED).metrics
    gradient = (noise[0] - noise[1]) / 3.0 / (4 * 0.5)
    np.testing.assert_allclose(parameters(agent), before + 0.1 * gradient, atol=1e-6)
    expected = {
        "score_mean": 3.25,
        "score_max": 9.0,
        "score_std": np.std([9.0, -1.0, 3.0, 2.0]),
        "grad_norm": np.linalg.norm(gradient),
        "update_norm": 0.1 * np.linalg.norm(gradient),
        "parameter_norm": np.linalg.norm(before + 0.1 * gradient),
    }
    assert set(metrics) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)


def test_weight_decay_pulls_parameters_to_zero(agent_of):
    agent = agent_of(weight_decay=0.25)
    before = parameters(agent)
    agent.update(rollout(np.ones((2, 4))), SEED)  # equal scores: the decay alone acts
    np.testing.assert_allclose(parameters(agent), before * (1.0 - 0.1 * 0.25), rtol=1e-6)


def test_weight_decay_is_applied_once_with_adamw(agent_of):
    # Decoupled in place of added to the gradient, which Adam would scale.
    agent = agent_of(weight_decay=0.25, optimizer="adamw")
    before = {each.path: each.numpy() for each in agent.network.trainable_variables}
    agent.update(rollout(np.ones((2, 4))), SEED)
    for each in agent.network.trainable_variables:
        left = 1.0 - 0.1 * 0.25 if each.name == "kernel" else 1.0
        np.testing.assert_allclose(each.numpy(), before[each.path] * left, rtol=1e-6, err_msg=each.path)


def test_members_of_equal_score_move_nothing(agent_of):
    agent = agent_of()
    agent.resample_noise(SEED)
    before = parameters(agent)
    agent.update(rollout(np.ones((2, 4))), SEED)
    np.testing.assert_array_equal(parameters(agent), before)


def test_only_the_order_of_scores_counts(agent_of):
    moved = []
    for reward in ([[4.0, 0.0, 2.0, 1.0]], [[4e6, -50.0, 2.0, 1.9]]):
        agent = agent_of()
        agent.resample_noise(SEED)
        agent.update(rollout(reward), SEED)
        moved.append(parameters(agent))
    np.testing.assert_array_equal(*moved)


def test_gradients_are_clipped_by_their_norm(agent_of):
    agent = agent_of(max_grad_norm=0.01)
    agent.resample_noise(SEED)
    metrics = agent.update(rollout([[4.0, 0.0, 2.0, 1.0]]), SEED).metrics
    assert metrics["grad_norm"] > 0.01
    np.testing.assert_allclose(metrics["update_norm"], 0.1 * 0.01, rtol=1e-3)


def test_in_training_each_environment_is_acted_in_by_its_member(agent_of):
    agent = agent_of()
    agent.resample_noise(SEED)
    observation = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)
    scores = agent.policy(observation, (), SEED, True).q_values.numpy()
    kernel, bias = (each.numpy() for each in agent.population.weights)
    expected = np.einsum("bi,bia->ba", observation, kernel) + bias
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-6)
    action = agent.act(observation, (), SEED, STEP, True)[0]
    np.testing.assert_array_equal(action, expected.argmax(-1))


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_in_evaluation_the_mean_parameters_act_for_any_number(agent_of, count):
    agent = agent_of()
    agent.resample_noise(SEED)
    observation = tf.constant(np.random.default_rng(0).normal(size=(count, 3)), tf.float32)
    kernel, bias = (each.numpy() for each in agent.network.trainable_variables)
    found = agent.policy(observation, (), SEED, False).q_values
    np.testing.assert_allclose(found, observation.numpy() @ kernel + bias, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("space", "head"),
    [
        (spaces.Discrete(3), lambda x: x.argmax(-1)),
        (spaces.Box(-1.0, 1.0, (2, 2)), lambda x: x.reshape(4, 2, 2)),
        (spaces.MultiDiscrete([2, 3]), lambda x: np.stack([x[:, :2].argmax(-1), x[:, 2:].argmax(-1)], -1)),
        (spaces.MultiBinary(3), lambda x: x > 0.0),
    ],
)
def test_every_kind_of_action_is_read_off_the_members_outputs(agent_of, space, head):
    agent = agent_of(action_space=space)
    agent.resample_noise(SEED)
    observation = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)
    kernel, bias = (each.numpy() for each in agent.population.weights)
    expected = head(np.einsum("bi,bia->ba", observation, kernel) + bias)
    action = agent.act(observation, (), SEED, STEP, True)[0]
    np.testing.assert_allclose(action, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("training", [True, False])
def test_illegal_actions_are_never_taken(agent_of, training):
    agent = agent_of(observation_space=MASKED, action_space=spaces.Discrete(3))
    agent.resample_noise(SEED)
    for legal in range(3):
        observation = {
            "number": tf.constant(np.random.default_rng(legal).normal(size=(4, 3)), tf.float32),
            "action_mask": tf.one_hot([legal] * 4, 3, dtype=tf.int32),
        }
        np.testing.assert_array_equal(agent.act(observation, (), SEED, STEP, training)[0], [legal] * 4)


def test_acting_reads_the_population_and_a_checkpoint_holds_its_noise(agent_of):
    agent = agent_of()
    population = {"population/weight_0", "population/weight_1"}
    assert set(agent.acting_variables) == set(agent.policy_variables) | population
    assert set(agent.variables) >= set(agent.acting_variables) | {"population/noise"}
    assert not population & set(agent.policy_variables)


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("es", {"num_envs": 5}, "even number"),
        ("es", {"overlap": True}, "overlap"),
        ("es", {"grad_comp": "backprop"}, "no loss to differentiate"),
        ("ars", {"grad_comp": "accumulate"}, "no loss to differentiate"),
    ],
)
def test_settings_that_a_population_cannot_have_are_refused(name, overrides, message):
    with pytest.raises(UsageError, match=message):
        resolve(name, {"env": "CartPole-v1", **overrides})


def test_algorithms_without_a_population_cannot_take_its_gradient(make_agent):
    with pytest.raises(UsageError, match="grad_comp evolution"):
        make_agent("ppo", grad_comp="evolution")
