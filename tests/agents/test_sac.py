"""SAC: its three losses by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX, box_batch, constant_actor, linear_critic, same, values
from scipy import stats

from rl.errors import UsageError
from rl.ops import random

SEED = random.key(0)
MEAN, LOG_STD = 0.5, -1.0


def drawn(seed, count):
    """(tanh(u), log density of tanh(u) in [-1, 1]) of the samples that `seed` gives, in 64 bits."""
    noise = random.normal(seed, [count, 1]).numpy().astype(np.float64)[:, 0]
    u = MEAN + np.exp(LOG_STD) * noise
    return np.tanh(u), stats.norm.logpdf(noise) - LOG_STD - np.log(1.0 - np.tanh(u) ** 2)


@pytest.fixture
def known(make_agent):
    """tanh(u), u normal (0.5, e^-1); Q = 2 a + 1 and 1 - a; Q' = 3 a - 1 and 2 - a; temperature 0.2."""
    agent = make_agent("sac", action_space=BOX, temperature=0.2)
    constant_actor(agent.network, [MEAN, LOG_STD])
    linear_critic(agent.critic, [2.0, -1.0], [1.0, 1.0])
    linear_critic(agent.target_critic, [3.0, -1.0], [-1.0, 2.0])
    return agent


def test_the_critics_loss_by_hand(known, make_batch):
    batch = box_batch(make_batch, np.full((5, 1), 2.5), mask=np.array([1.0, 1, 1, 1, 0]))
    action, log_prob = drawn(SEED, 5)
    following = np.minimum(3.0 * action - 1.0, 2.0 - action) - 0.2 * log_prob
    target = batch.reward + batch.discount * following
    errors = np.asarray(target) - np.array([[2.0], [0.5]])  # the action 2.5 is 0.5 in [-1, 1]
    expected = 0.5 * (errors**2).sum(0) * batch.sample_weight * batch.mask
    loss, _, priorities = known.loss(batch, SEED)
    np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(priorities, np.abs(errors).mean(0), rtol=1e-4, atol=1e-5)


def test_the_policys_loss_by_hand(known, make_batch):
    mask = (np.arange(400) != 5).astype(np.float32)
    batch = box_batch(make_batch, np.zeros((400, 1)), mask=mask)
    action, log_prob = drawn(SEED, 400)
    lesser = np.minimum(2.0 * action + 1.0, 1.0 - action)
    assert (action > 0).any() and (action < 0).any()  # both critics are the lesser one somewhere
    loss, metrics, _ = known.policy_loss(batch, SEED)
    np.testing.assert_allclose(loss, (0.2 * log_prob - lesser) * mask, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(metrics["entropy"], -log_prob[mask > 0.0].mean(), rtol=1e-4)


def test_the_policys_gradient_is_that_of_the_reparameterised_loss(known, make_batch):
    # By the mean, with a = tanh(u): d(log density)/du = 2 a, and the lesser Q's slope times 1 - a^2.
    batch = box_batch(make_batch, np.zeros((400, 1)))
    action, _ = drawn(SEED, 400)
    slope = np.where(2.0 * action + 1.0 < 1.0 - action, 2.0, -1.0)
    expected = (0.2 * 2.0 * action - slope * (1.0 - action**2)).sum()
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(known.policy_loss(batch, SEED)[0])
    gradient = tape.gradient(total, known.network.policy.bias.value)
    np.testing.assert_allclose(gradient[0], expected, rtol=1e-3)


@pytest.mark.parametrize(("target", "direction"), [(-5.0, -1.0), (5.0, 1.0)])
def test_the_temperature_falls_while_the_entropy_is_too_high(make_agent, make_batch, target, direction):
    agent = make_agent("sac", action_space=BOX, target_entropy=target, temperature=0.5, temperature_lr=0.01)
    metrics = agent.update(box_batch(make_batch, np.ones((6, 1))), SEED).metrics
    np.testing.assert_allclose(metrics["temperature"], 0.5, rtol=1e-5)  # that of this update
    # Adam's first step is its learning rate, in the logarithm.
    np.testing.assert_allclose(agent.temperature, 0.5 * np.exp(direction * 0.01), rtol=1e-4)


def test_the_temperatures_gradient_is_the_excess_of_entropy(make_agent, make_batch):
    agent = make_agent("sac", action_space=BOX, optimizer="sgd", temperature_lr=0.1)
    assert agent.target_entropy == -1.0
    entropy = float(agent.update(box_batch(make_batch, np.ones((6, 1))), SEED).metrics["entropy"])
    np.testing.assert_allclose(agent.log_temperature.numpy(), -0.1 * (entropy + 1.0), rtol=1e-4)


def test_the_temperature_stays_where_it_is_not_learned_or_nothing_was_sampled(make_agent, make_batch):
    agent = make_agent("sac", action_space=BOX, learn_temperature=False, temperature=0.3)
    agent.update(box_batch(make_batch, np.ones((6, 1))), SEED)
    np.testing.assert_allclose(agent.temperature, 0.3, rtol=1e-6)
    agent = make_agent("sac", action_space=BOX, optimizer="sgd", temperature=0.3)
    agent.update(box_batch(make_batch, np.ones((6, 1)), mask=np.zeros(6)), SEED)
    np.testing.assert_allclose(agent.temperature, 0.3, rtol=1e-6)


def test_each_update_moves_policy_critics_and_their_targets(make_agent, make_batch):
    agent = make_agent("sac", action_space=BOX, tau=0.25, lr=0.01)
    assert same(values(agent.critic), values(agent.target_critic))
    before = {name: values(network) for name, network in agent.networks.items()}
    agent.update(box_batch(make_batch, np.ones((6, 1))), SEED)
    assert all(not same(values(network), before[name]) for name, network in agent.networks.items())
    for x, y, z in zip(
        values(agent.critic), values(agent.target_critic), before["target_critic"], strict=True
    ):
        np.testing.assert_allclose(y, 0.25 * x + 0.75 * z, rtol=1e-5, atol=1e-7)


def test_actions_are_samples_in_training_and_the_squashed_mean_in_evaluation(known):
    observation, late = tf.zeros([20_000, 3]), tf.constant(10**6, tf.int64)
    action = known.act(observation, (), SEED, late, True)[0].numpy()[:, 0]
    assert stats.kstest(np.arctanh((action - 1.0) / 3.0), stats.norm(MEAN, np.exp(LOG_STD)).cdf).pvalue > 1e-4
    action = known.act(observation, (), SEED, late, False)[0].numpy()
    np.testing.assert_allclose(action, np.full((20_000, 1), 1.0 + 3.0 * np.tanh(MEAN)), rtol=1e-5)


def test_actions_of_any_shape(make_agent, make_batch):
    space = spaces.Box(-1.0, 1.0, (2, 3))
    agent = make_agent("sac", action_space=space)
    assert agent.target_entropy == -6.0
    action = agent.act(make_batch().observation, (), SEED, tf.constant(10**6, tf.int64), True)[0]
    assert action.shape == (6, 2, 3) and all(space.contains(each) for each in action.numpy())
    agent.update(make_batch()._replace(action=action), SEED)


def test_unbounded_and_discrete_actions_are_refused(make_agent):
    with pytest.raises(UsageError, match="sac squashes its actions into the space's bounds"):
        make_agent("sac", action_space=spaces.Box(-np.inf, 1.0, (1,)))
    with pytest.raises(UsageError, match="sac acts in Box action spaces"):
        make_agent("sac", action_space=spaces.Discrete(2))
