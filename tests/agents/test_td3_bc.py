"""TD3+BC: the pull to the data's actions, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from known_networks import BOX, box_batch, constant_actor, linear_critic

from rl.ops import random

SEED = random.key(0)


@pytest.fixture
def known(make_agent):
    """mu = tanh(0.5) = 0.462117; Q = 2 a + 1 and a + 0.5."""
    agent = make_agent("td3_bc", action_space=BOX, alpha=2.5, normalize_observation=False)
    constant_actor(agent.network, [0.5])
    linear_critic(agent.critic, [2.0, 1.0], [1.0, 0.5])
    return agent


def test_the_policys_loss_by_hand(known, make_batch):
    # Q = 1.924234 everywhere: alpha / mean |Q| times Q is 2.5. The actions 2.5 and -2 are 0.5 and -1.
    batch = box_batch(make_batch, [[2.5], [-2.0], [4.0]], mask=np.array([1.0, 1.0, 0.0]))
    loss, metrics, _ = known.policy_loss(batch, SEED)
    distance = [(0.462117 - 0.5) ** 2, (0.462117 + 1.0) ** 2]
    np.testing.assert_allclose(loss, [*(np.array(distance) - 2.5), 0.0], rtol=1e-4)
    np.testing.assert_allclose(metrics["action_distance"], np.mean(distance), rtol=1e-4)


def test_the_size_of_values_does_not_weigh(known, make_batch):
    batch = box_batch(make_batch, [[2.5], [-2.0]])
    before = known.policy_loss(batch, SEED)[0]
    linear_critic(known.critic, [200.0, 1.0], [100.0, 0.5])
    np.testing.assert_allclose(known.policy_loss(batch, SEED)[0], before, rtol=1e-4)


def test_its_metrics_are_means_over_the_updates_that_the_policy_had(known, make_batch):
    known.optimizers["network"].learning_rate.assign(0.0)
    batch = box_batch(make_batch, [[2.5], [-2.0]])
    logged = [float(known.update(batch, SEED).metrics["action_distance"]) for _ in range(2)]
    np.testing.assert_allclose(np.mean(logged), (0.037883**2 + 1.462117**2) / 2.0, rtol=1e-4)
