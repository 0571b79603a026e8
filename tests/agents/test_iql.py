"""IQL: expectiles, targets and weights by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from known_networks import BOX, box_batch, linear_critic, same, values

from rl.ops import random

SEED = random.key(0)


@pytest.fixture
def known(make_agent):
    """Q = 2 a + 1 and a + 0.5; Q' = 3 a - 1 and 2 - a; V = 1; pi = normal with mean 1 and deviation 3."""
    agent = make_agent("iql", action_space=BOX, expectile=0.8, inverse_temperature=2.0, max_weight=5.0)
    linear_critic(agent.critic, [2.0, 1.0], [1.0, 0.5])
    linear_critic(agent.target_critic, [3.0, -1.0], [-1.0, 2.0])
    linear_critic(agent.value, [0.0], [1.0])
    for variable in agent.network.trainable_variables:
        variable.assign(0.0 * variable)
    return agent


def batch_of(make_batch):
    # The actions 2.5, -2 and 4 are 0.5, -1 and 1, so that min Q' is 0.5, -4 and 1, and A -0.5, -5 and 0.
    return box_batch(
        make_batch, [[2.5], [-2.0], [4.0]], reward=np.ones(3), discount=np.array([0.9, 0.0, 0.9])
    )


def test_the_value_is_fitted_to_an_expectile(known, make_batch):
    loss = known.value_loss(batch_of(make_batch), SEED)[0]
    np.testing.assert_allclose(loss, [0.2 * 0.25, 0.2 * 25.0, 0.0], atol=1e-6)
    linear_critic(known.value, [0.0], [-1.0])  # A: 1.5, -3 and 2
    loss = known.value_loss(batch_of(make_batch), SEED)[0]
    np.testing.assert_allclose(loss, [0.8 * 2.25, 0.2 * 9.0, 0.8 * 4.0], rtol=1e-5)


def test_the_critics_are_fitted_to_the_next_value(known, make_batch):
    batch = batch_of(make_batch)
    np.testing.assert_allclose(known.target(batch, SEED), [1.9, 1.0, 1.9], rtol=1e-5)
    # Q: 2 and 1; -1 and -0.5; 3 and 1.5.
    errors = np.array([[-0.1, 0.9], [2.0, 1.5], [-1.1, 0.4]])
    loss, _, priorities = known.loss(batch._replace(sample_weight=np.ones(3, np.float32)), SEED)
    np.testing.assert_allclose(loss, 0.5 * (errors**2).sum(1), rtol=1e-4)
    np.testing.assert_allclose(priorities, np.abs(errors).mean(1), rtol=1e-4)


def test_empty_rows_teach_neither_value_nor_policy(known, make_batch):
    batch = batch_of(make_batch)._replace(mask=np.float32([1.0, 0.0, 0.0]))
    for loss in (known.value_loss(batch, SEED)[0], known.policy_loss(batch, SEED)[0]):
        assert (loss.numpy() != 0.0).tolist() == [True, False, False]


def test_the_policys_weights_grow_with_the_advantage_up_to_a_limit(known, make_batch):
    linear_critic(known.value, [0.0], [0.4])  # A: 0.1, -4.4 and 0.6
    loss, metrics, _ = known.policy_loss(batch_of(make_batch), SEED)
    weights = np.exp([0.2, -8.8, 1.2])
    log_prob = np.array([-0.5 * 0.25, -0.5, -0.5]) - math.log(3.0) - 0.918939
    np.testing.assert_allclose(loss, -weights * log_prob, rtol=1e-4)
    np.testing.assert_allclose(metrics["advantage"], (0.1 - 4.4 + 0.6) / 3.0, rtol=1e-4)
    linear_critic(known.value, [0.0], [-3.0])  # A of the last: 4, of which the weight is exp(8)
    np.testing.assert_allclose(
        known.policy_loss(batch_of(make_batch), SEED)[0][2], -5.0 * log_prob[2], rtol=1e-4
    )


def test_only_the_value_learns_from_its_loss(known, make_batch):
    others = known.network, known.critic, known.target_critic
    before, value = [values(each) for each in others], values(known.value)
    known.gradient_step(batch_of(make_batch), SEED, "value", known.value_loss)
    assert all(same(values(each), old) for each, old in zip(others, before, strict=True))
    assert not same(values(known.value), value)
