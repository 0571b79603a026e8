"""ARS: the paper's step from literal scores and directions, its start at zero, its two versions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import Trajectory

SEED = random.key(0)


@pytest.fixture
def agent_of(make_agent):
    """An ARS agent of three directions, steps of size 0.1."""

    def make(**overrides):
        settings = {"num_envs": 6, "rollout_length": 1, "model.hidden": (), "lr": 0.1}
        return make_agent("ars", **{**settings, "normalize_observation": False, **overrides})

    return make


def rollout(reward, mask=None):
    """A trajectory of rewards [T, B]; episodes end before steps of mask 0 and at the end."""
    reward = tf.constant(reward, tf.float32)
    length, count = reward.shape
    mask = np.ones(reward.shape) if mask is None else np.array(mask, float)
    ended = np.concatenate([mask[1:] == 0.0, np.ones((1, count), bool)])
    observation, action = tf.ones([length + 1, count, 3]), tf.zeros([length, count], tf.int32)
    never = tf.zeros(reward.shape, tf.bool)
    return Trajectory(
        observation, action, reward, tf.constant(ended), never, tf.constant(mask, tf.float32), {}
    )


def parameters(agent):
    return np.concatenate([each.numpy().reshape(-1) for each in agent.network.trainable_variables])


@pytest.mark.parametrize("std", [0.03, 0.5])
@pytest.mark.parametrize("top", [None, 3, 2, 1])
def test_the_step_is_the_papers_whatever_the_noise_is_scaled_by(agent_of, top, std):
    agent = agent_of(top_directions=top, perturbation_std=std)
    agent.resample_noise(SEED)
    delta = agent.population.noise.numpy()
    plus, minus = np.array([1.0, 7.0, 2.0]), np.array([4.0, -3.0, 3.0])
    used = [1, 0, 2][: top or 3]  # max(plus, minus) is 4, 7, 3
    deviation = np.std(np.concatenate([plus[used], minus[used]]))
    # Algorithm 2, line 7: alpha / (b sigma_R) * sum of (r+ - r-) delta
    step = 0.1 / (len(used) * deviation) * sum((plus[k] - minus[k]) * delta[k] for k in used)
    metrics = agent.update(rollout([[*plus, *minus]]), SEED).metrics
    np.testing.assert_allclose(parameters(agent), step, rtol=1e-5, atol=1e-7)
    expected = {
        "score_mean": 14.0 / 6.0,
        "score_max": 7.0,
        "score_std": np.std([1.0, 7.0, 2.0, 4.0, -3.0, 3.0]),
        "selected_std": deviation,
        "grad_norm": np.linalg.norm(step) / 0.1,
        "update_norm": np.linalg.norm(step),
        "parameter_norm": np.linalg.norm(step),
    }
    assert set(metrics) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)


def test_equal_scores_move_nothing(agent_of):
    agent = agent_of()
    agent.resample_noise(SEED)
    agent.update(rollout([[500.0] * 6]), SEED)
    assert not parameters(agent).any()


def test_the_bonus_for_staying_alive_is_taken_off_every_real_step(agent_of):
    agent = agent_of(rollout_length=3, alive_bonus=1.0)
    reward = [[2.0] * 6, [3.0, 3.0, 3.0, 0.0, 0.0, 0.0], [4.0] * 6]
    mask = [[1] * 6, [1, 1, 1, 0, 0, 0], [1] * 6]
    metrics = agent.update(rollout(reward, mask), SEED).metrics
    # The first three play one episode of 1 + 2 + 3, the others two, of 1 and of 3.
    np.testing.assert_allclose(metrics["score_mean"], (6.0 + 2.0) / 2.0)
    np.testing.assert_allclose(metrics["score_max"], 6.0)


def test_the_linear_policy_starts_at_zero(agent_of):
    assert not parameters(agent_of()).any()


def test_of_a_deeper_policy_the_output_starts_at_zero(agent_of):
    agent = agent_of(**{"model.hidden": (4,)})
    assert not agent.policy(tf.ones([2, 3]), (), SEED, False).q_values.numpy().any()
    assert agent.network.torso.layers[0].kernel.numpy().any()


@pytest.mark.parametrize("version", [1, 2])
def test_the_second_version_standardises_observations_by_those_before_the_rollout(agent_of, version):
    agent = agent_of(normalize_observation=version == 2)
    agent.resample_noise(SEED)
    generator = np.random.default_rng(0)
    seen = generator.normal(5.0, 3.0, size=(2, 6, 3)).astype(np.float32)
    agent.observe(rollout([[0.0] * 6])._replace(observation=tf.constant(seen)))
    observation = generator.normal(5.0, 3.0, size=(6, 3)).astype(np.float32)
    x = (observation - seen[0].mean(0)) / seen[0].std(0) if version == 2 else observation
    kernel, bias = (each.numpy() for each in agent.population.weights)
    found = agent.policy(tf.constant(observation), (), SEED, True).q_values
    np.testing.assert_allclose(found, np.einsum("bi,bia->ba", x, kernel) + bias, rtol=1e-4, atol=1e-5)


def test_more_directions_than_there_are_cannot_be_followed():
    with pytest.raises(UsageError, match="makes only 4 directions"):
        resolve("ars", {"env": "CartPole-v1", "num_envs": 8, "top_directions": 5})
