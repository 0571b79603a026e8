"""ReBRAC: both penalties by hand."""

from __future__ import annotations

import numpy as np
import pytest
from known_networks import BOX, box_batch, constant_actor, linear_critic

from rl.ops import random

SEED = random.key(0)


@pytest.fixture
def known(make_agent):
    """mu = tanh(0.5) = 0.462117; Q = 2 a + 1 and a + 0.5; mu' = 0; Q' = 3 a - 1 and 2 - a."""
    penalties = {"policy_penalty": 4.0, "critic_penalty": 2.0, "critic_layer_norm": False}
    agent = make_agent("rebrac", action_space=BOX, target_noise=0.0, **penalties)
    constant_actor(agent.network, [0.5])
    constant_actor(agent.target_network, [0.0])
    linear_critic(agent.critic, [2.0, 1.0], [1.0, 0.5])
    linear_critic(agent.target_critic, [3.0, -1.0], [-1.0, 2.0])
    return agent


def test_the_target_policy_is_held_to_the_datas_next_actions(known, make_batch):
    batch = box_batch(make_batch, [[2.5], [2.5]], reward=np.ones(2), discount=np.array([0.9, 0.0]))
    batch = batch._replace(next_action=np.array([[2.5], [4.0]], np.float32))  # 0.5 and 1
    np.testing.assert_allclose(known.target(batch, SEED), [1.0 + 0.9 * (-1.0 - 2.0 * 0.25), 1.0], rtol=1e-5)


def test_the_policys_loss_by_hand(known, make_batch):
    # min Q = 0.962117 everywhere: over its mean size it is 1. The actions are 0.5 and -1.
    batch = box_batch(make_batch, [[2.5], [-2.0], [4.0]], mask=np.array([1.0, 1.0, 0.0]))
    loss, metrics, _ = known.policy_loss(batch, SEED)
    distance = np.array([0.037883**2, 1.462117**2])
    np.testing.assert_allclose(loss, [*(4.0 * distance - 1.0), 0.0], rtol=1e-4)
    np.testing.assert_allclose(metrics["action_distance"], distance.mean(), rtol=1e-4)


def test_critics_alone_have_normalised_layers(make_agent):
    agent = make_agent("rebrac", action_space=BOX)
    assert all(layer.scale is not None for layer in agent.critic.hidden)
    assert not any("norm" in variable.path for variable in agent.network.variables)
    assert not agent.hparams.model.layer_norm
