"""IQN: its loss in numpy, and what is drawn when."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import random

SEED = random.key(0)
COUNTS = {"fractions": 3, "target_fractions": 5, "policy_fractions": 4, "cosines": 16}


def relu(x):
    return np.maximum(x, 0.0)


def values(network, observation, fraction):
    """The network multiplied out: [N, F, A]."""
    layer, embed, head = network.torso.layers[0], network.embedding.dense, network.advantage
    features = relu(np.asarray(observation) @ layer.kernel.numpy() + layer.bias.numpy())
    cosines = np.cos(np.pi * np.arange(16) * np.asarray(fraction)[:, :, None])
    product = features[:, None, :] * relu(cosines @ embed.kernel.numpy() + embed.bias.numpy())
    return product @ head.kernel.numpy() + head.bias.numpy()


@pytest.mark.parametrize("double", [False, True])
def test_loss_and_priorities_equal_numpy(make_agent, make_batch, monkeypatch, double):
    agent = make_agent("iqn", double=double, huber_delta=0.7, **COUNTS)
    for i, variable in enumerate(agent.target_network.trainable_variables):
        variable.assign_add(random.normal(random.key(i), variable.shape) * 0.3)
    batch = make_batch(count=30, mask=np.array([1.0, 1, 0, 1, 1] * 6))
    drawn = []
    uniform = random.uniform
    monkeypatch.setattr(random, "uniform", lambda *words: drawn.append(uniform(*words)) or drawn[-1])
    found, metrics, priorities = agent.loss(batch, SEED)
    monkeypatch.undo()
    fraction, target_fraction, policy_fraction = drawn
    assert [each.shape for each in drawn] == [(30, 3), (30, 5), (30, 4)]

    rows = np.arange(30)
    chosen = values(agent.network, batch.observation, fraction)[rows, :, batch.action]  # [N, F]
    selector = agent.network if double else agent.target_network
    best = values(selector, batch.next_observation, policy_fraction).mean(1).argmax(-1)
    following = values(agent.target_network, batch.next_observation, target_fraction)[rows, :, best]
    target = np.asarray(batch.reward[:, None] + batch.discount[:, None] * following)
    each = np.zeros(30)
    for i in range(3):
        for j in range(5):
            u = target[:, j] - chosen[:, i]
            huber = np.where(np.abs(u) <= 0.7, u**2 / 2, 0.7 * (np.abs(u) - 0.35))
            each += np.abs(fraction[:, i] - (u < 0)) * huber / 0.7 / 5
    error = target.mean(-1) - chosen.mean(-1)

    np.testing.assert_allclose(found, each * batch.sample_weight * batch.mask, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(priorities, np.abs(error), rtol=1e-4, atol=1e-5)
    counted = np.asarray(batch.mask) > 0
    np.testing.assert_allclose(metrics["td_error"], np.abs(error)[counted].mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["q_value"], chosen.mean(-1)[counted].mean(), rtol=1e-4)


def test_every_update_draws_fractions_of_its_own(make_agent, make_batch):
    agent, batch = make_agent("iqn"), make_batch()
    losses = [agent.loss(batch, random.key(seed))[0].numpy() for seed in (1, 2, 1)]
    assert (losses[0] != losses[1]).all()
    np.testing.assert_array_equal(losses[0], losses[2])


def test_acting_averages_over_drawn_fractions_in_training_and_even_ones_in_evaluation(make_agent, make_batch):
    agent, observation = make_agent("iqn", **COUNTS), make_batch().observation
    even = np.tile([0.125, 0.375, 0.625, 0.875], (6, 1))
    found = [agent.policy(observation, (), random.key(seed), False).q_values for seed in (0, 1)]
    expected = values(agent.network, observation, even).mean(1)
    for each in found:
        np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-5)
    drawn = [agent.policy(observation, (), random.key(seed), True).q_values.numpy() for seed in (0, 1)]
    assert (drawn[0] != drawn[1]).all()


def test_the_gradient_reaches_the_embedding(make_agent, make_batch):
    agent = make_agent("iqn")
    with tf.GradientTape() as tape:
        loss = agent.loss(make_batch(), SEED)[0]
    gradient = tape.gradient(loss, agent.network.embedding.dense.kernel.value)
    assert (np.abs(gradient).sum(0) > 0).any()
