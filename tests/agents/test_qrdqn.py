"""QR-DQN: its loss worked by hand and in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import random

SEED = random.key(0)


def relu(x):
    return np.maximum(x, 0.0)


def set_quantiles(network, *rows):
    """Whatever the observation, the actions have these quantiles."""
    for variable in network.trainable_variables:
        variable.assign(tf.zeros_like(variable))
    network.advantage.bias.assign(np.concatenate(rows))


def test_loss_and_priorities_worked_by_hand(make_agent, make_batch):
    agent = make_agent("qrdqn", quantiles=2, double=False)  # fractions 1/4 and 3/4
    set_quantiles(agent.network, [1.0, 3.0], [0.0, 0.0], [0.0, 0.0])
    set_quantiles(agent.target_network, [0.0, 1.0], [2.0, 8.0], [4.0, 5.0])
    fields = {"action": [0, 0], "reward": [1.0, 2.0], "discount": [0.5, 0.0], "sample_weight": [1.0, 0.5]}
    zeros = np.zeros((2, 3))
    batch = make_batch(count=2, observation=zeros, next_observation=zeros, mask=np.ones(2), **fields)
    found, metrics, priorities = agent.loss(batch, SEED)
    # 1: action 1 has the best mean, 5: targets 1 + 0.5 (2, 8) = 2, 5. As in tests/ops: 1.125.
    # 2: terminal, targets 2, 2. u = 1: 0.5 / 4; u = -1: 0.5 |3/4 - 1|; weight 0.5.
    np.testing.assert_allclose(found, [1.125, 0.5 * 0.25], rtol=1e-6)
    np.testing.assert_allclose(priorities, [1.5, 0.0], atol=1e-6)  # means 3.5 and 2 against 2
    np.testing.assert_allclose(metrics["q_value"], 2.0, rtol=1e-6)
    np.testing.assert_allclose(metrics["td_error"], 0.75, rtol=1e-6)


@pytest.mark.parametrize("double", [False, True])
def test_loss_and_priorities_equal_numpy(make_agent, make_batch, forward, double):
    agent = make_agent("qrdqn", double=double, quantiles=4, huber_delta=0.7)
    for i, variable in enumerate(agent.target_network.trainable_variables):
        variable.assign_add(random.normal(random.key(i), variable.shape) * 0.3)
    batch = make_batch(count=30, mask=np.array([1.0, 1, 0, 1, 1] * 6))
    rows, fraction = np.arange(30), np.array([0.125, 0.375, 0.625, 0.875])

    def quantiles(network, observation):
        return forward(network.torso, network.advantage, observation, relu).reshape(30, 3, 4)

    chosen = quantiles(agent.network, batch.observation)[rows, batch.action]
    following = quantiles(agent.target_network, batch.next_observation)
    selector = quantiles(agent.network, batch.next_observation) if double else following
    following = following[rows, selector.mean(-1).argmax(-1)]
    target = np.asarray(batch.reward[:, None] + batch.discount[:, None] * following)
    each = np.zeros(30)
    for i in range(4):
        for j in range(4):
            u = target[:, j] - chosen[:, i]
            huber = np.where(np.abs(u) <= 0.7, u**2 / 2, 0.7 * (np.abs(u) - 0.35))
            each += np.abs(fraction[i] - (u < 0)) * huber / 4
    error = target.mean(-1) - chosen.mean(-1)

    found, metrics, priorities = agent.loss(batch, SEED)
    np.testing.assert_allclose(found, each * batch.sample_weight * batch.mask, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(priorities, np.abs(error), rtol=1e-4, atol=1e-5)
    counted = np.asarray(batch.mask) > 0
    np.testing.assert_allclose(metrics["td_error"], np.abs(error)[counted].mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["q_value"], chosen.mean(-1)[counted].mean(), rtol=1e-4)


def test_action_values_are_the_means_of_the_quantiles(make_agent):
    agent = make_agent("qrdqn", quantiles=2)
    set_quantiles(agent.network, [1.0, 3.0], [-1.0, 0.0], [5.0, 5.0])
    found = agent.policy(tf.zeros([2, 3]), (), SEED, True).q_values
    np.testing.assert_allclose(found, [[2.0, -0.5, 5.0]] * 2)
