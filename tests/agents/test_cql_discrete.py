"""Discrete CQL: the gap, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from rl.ops import random

SEED = random.key(0)


def known(make_agent, **overrides):
    """Two quantiles of each of three actions: 1 and 3, 0 and 0, -1 and 1; their means are 2, 0 and 0."""
    agent = make_agent("cql_discrete", quantiles=2, **overrides)
    for network in (agent.network, agent.target_network):
        for variable in network.trainable_variables:
            variable.assign(0.0 * variable)
        network.advantage.bias.assign([1.0, 3.0, 0.0, 0.0, -1.0, 1.0])
    return agent


def test_to_the_loss_of_qr_dqn_comes_the_weighted_gap(make_agent, make_batch):
    weights = np.array([1.0, 0.5, 1.0])
    mask = np.array([1.0, 1.0, 0.0])
    batch = make_batch(count=3, action=np.array([0, 1, 2]), sample_weight=weights, mask=mask)
    plain = known(make_agent, conservative_weight=0.0).loss(batch, SEED)
    found = known(make_agent, conservative_weight=2.0).loss(batch, SEED)
    # log(e^2 + 1 + 1) = 2.239545
    np.testing.assert_allclose(found[0] - plain[0], [2.0 * 0.239545, 2.239545, 0.0], rtol=1e-4)
    np.testing.assert_allclose(found[1]["conservative_gap"], (0.239545 + 2.239545) / 2.0, rtol=1e-5)
    np.testing.assert_array_equal(found[2], plain[2])


def test_without_a_weight_it_is_qr_dqn(make_agent, make_batch):
    batch = make_batch()
    found = [
        make_agent(name, quantiles=4, double=True, model={"hidden": (8,), "activation": "relu"}, **own)
        for name, own in (("qrdqn", {}), ("cql_discrete", {"conservative_weight": 0.0}))
    ]
    for one, other in zip(*(each.network.variables for each in found), strict=True):
        other.assign(one)
    for one, other in zip(*(each.target_network.variables for each in found), strict=True):
        other.assign(one)
    losses = [each.loss(batch, SEED)[0] for each in found]
    np.testing.assert_array_equal(*losses)


def test_illegal_actions_do_not_count(make_agent, make_batch):
    space = spaces.Dict({"action_mask": spaces.MultiBinary(3), "x": spaces.Box(-1.0, 1.0, (2,))})
    agent = make_agent("cql_discrete", quantiles=2, observation_space=space)
    for variable in agent.network.trainable_variables:
        variable.assign(0.0 * variable)
    seen = {"action_mask": np.array([[1, 1, 0]]), "x": np.zeros((1, 2), np.float32)}
    batch = make_batch(count=1, action=np.array([0]))._replace(observation=seen, next_observation=seen)
    assert float(agent.loss(batch, SEED)[1]["conservative_gap"]) == pytest.approx(np.log(2.0))
