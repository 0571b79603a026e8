"""Discrete BCQ: which actions are considered, and the loss, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import random

SEED = random.key(0)


@pytest.fixture(params=[True, False], ids=["double", "single"])
def known(make_agent, request):
    """Q = 1, 5 and 2; G = 0.6, 0.1 and 0.3."""
    agent = make_agent("bcq_discrete", threshold=0.3, double=request.param)
    for network in (agent.network, agent.target_network):
        for variable in network.trainable_variables:
            variable.assign(0.0 * variable)
        pairs = np.stack([[1.0, 5.0, 2.0], np.log([0.6, 0.1, 0.3])], 1)
        network.advantage.bias.assign(pairs.reshape(-1))
    return agent


def test_rare_actions_are_not_considered(known, make_batch):
    seen = make_batch(count=2).observation
    q_values = known.policy(seen, (), SEED, False).q_values  # shares of the likeliest: 1, 1/6 and 1/2
    np.testing.assert_allclose(q_values, [[1.0, -1e9, 2.0]] * 2)
    action = known.act(seen, (), SEED, tf.constant(0, tf.int64), False)[0]
    np.testing.assert_array_equal(action, [2, 2])


def test_the_likeliest_action_is_considered_whatever_the_threshold(make_agent, make_batch):
    agent = make_agent("bcq_discrete", threshold=1.0)
    q_values = agent.policy(make_batch(count=8).observation, (), SEED, False).q_values.numpy()
    np.testing.assert_array_equal((q_values > -1e8).sum(-1), np.ones(8))


def test_the_loss_by_hand(known, make_batch):
    fields = {"reward": np.ones(1), "discount": np.array([0.9]), "sample_weight": np.ones(1)}
    batch = make_batch(count=1, action=np.array([1]), **fields)
    loss, metrics, priorities = known.loss(batch, SEED)
    # The target is 1 + 0.9 * 2, the error -2.2, of which the huber loss is 1.7; -log 0.1 = 2.302585; the mean
    # square of the logits is 2.337464.
    np.testing.assert_allclose(loss, [1.7 + 2.302585 + 0.02337464], rtol=1e-5)
    np.testing.assert_allclose(priorities, [2.2], rtol=1e-5)
    np.testing.assert_allclose(metrics["log_prob"], -2.302585, rtol=1e-5)
