"""AWAC: targets and advantages by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from known_networks import BOX, box_batch, linear_critic

from rl.ops import random

SEED = random.key(0)


@pytest.fixture
def known(make_agent):
    """Q = 2 a + 1 and a + 0.5; Q' = 3 a - 1 and 2 - a; the policy's actions are near 1, whose code is 0."""
    agent = make_agent("awac", action_space=BOX, inverse_temperature=0.5, max_weight=2.0)
    linear_critic(agent.critic, [2.0, 1.0], [1.0, 0.5])
    linear_critic(agent.target_critic, [3.0, -1.0], [-1.0, 2.0])
    for variable in agent.network.trainable_variables:
        variable.assign(0.0 * variable)
    agent.network.log_std.assign([-5.0])
    return agent


def test_critics_are_fitted_to_the_value_of_the_policys_next_action(known, make_batch):
    batch = box_batch(make_batch, np.ones((500, 1)), reward=np.ones(500), discount=np.full(500, 0.9))
    found = known.target(batch, SEED).numpy()  # 1 + 0.9 min(3 a - 1, 2 - a), a of mean 0, deviation 0.0067
    assert found.mean() == pytest.approx(0.1, abs=0.005) and found.std() == pytest.approx(
        2.7 * math.exp(-5.0), rel=0.2
    )


def test_critics_see_actions_beyond_a_bound_as_the_bound(known, make_batch):
    beyond, bound = (box_batch(make_batch, [[high], [low]]) for high, low in ((7.0, -9.0), (4.0, -2.0)))
    for found in (lambda batch: known.loss(batch, SEED)[0], lambda batch: known.advantage(batch, SEED)):
        np.testing.assert_array_equal(found(beyond), found(bound))


def test_drawn_actions_stay_within_the_bounds(known, make_batch):
    known.network.log_std.assign([2.0])
    found = known.drawn(make_batch(count=200).observation, SEED).numpy()
    assert found.min() == -1.0 and found.max() == 1.0


def test_the_policys_loss_by_hand(known, make_batch):
    # min Q of the data's actions: 1 (a = 0.5) and -1 (a = -1); of the policy's about 0.5: A is 0.5 and -1.5.
    batch = box_batch(make_batch, [[2.5], [-2.0], [4.0]], mask=np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(known.advantage(batch, SEED)[:2], [0.5, -1.5], atol=0.03)
    # Of the mode, whatever the deviation: weights e^0.25 and e^-0.75, log densities -2.142551 and -2.517551.
    known.network.log_std.assign([0.0])
    known.drawn = lambda observation, seed: known.actions.clipped_code(known.network(observation).mode())
    with tf.GradientTape() as tape:
        loss = known.policy_loss(batch, SEED)[0]
    np.testing.assert_allclose(loss, [2.751089, 1.189208, 0.0], rtol=1e-4)
    # By the mode's code, at deviation 1: -0.5 e^0.25 + e^-0.75; nothing by the weights.
    gradient = tape.gradient(loss, known.network.policy.bias.value)
    np.testing.assert_allclose(gradient, [-0.642013 + 0.472367], rtol=1e-4)


def test_discrete_actions_are_drawn_as_one_hot_codes(make_agent, make_batch):
    agent = make_agent("awac")
    agent.network.policy.kernel.assign(0.0 * agent.network.policy.kernel)
    agent.network.policy.bias.assign(np.log([0.5, 0.3, 0.2]))
    found = agent.drawn(make_batch(count=2000).observation, SEED)
    np.testing.assert_allclose(tf.reduce_mean(found, 0), [0.5, 0.3, 0.2], atol=0.05)
    assert set(np.unique(found)) == {0.0, 1.0}
