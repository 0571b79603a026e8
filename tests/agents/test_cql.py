"""CQL for continuous actions: the gap against integrals that are known."""

from __future__ import annotations

import numpy as np
import pytest
from known_networks import BOX, box_batch, constant_actor, linear_critic

from rl.ops import random

SEED = random.key(0)


def known(make_agent, **overrides):
    """Q = 2 a + 1 and a + 0.5; Q' = 3 a - 1 and 2 - a; pi hardly ever leaves tanh(0.5) = 0.462117."""
    agent = make_agent("cql", action_space=BOX, **overrides)
    constant_actor(agent.network, [0.5, -12.0])
    linear_critic(agent.critic, [2.0, 1.0], [1.0, 0.5])
    linear_critic(agent.target_critic, [3.0, -1.0], [-1.0, 2.0])
    return agent


def test_targets_are_without_entropy(make_agent, make_batch):
    batch = box_batch(make_batch, [[2.5]], reward=np.ones(1), discount=np.array([0.9]))
    np.testing.assert_allclose(known(make_agent).target(batch, SEED), [1.0 + 0.9 * 0.386351], rtol=1e-3)


def test_the_sum_over_all_actions_is_an_integral(make_agent, make_batch):
    agent = known(make_agent, sampled_actions=1000)
    constant_actor(agent.network, [0.0, -0.3])
    # of exp(2 a + 1) from -1 to 1: 9.858827, and of exp(a + 0.5): 3.875157
    found = agent.soft_maximum(box_batch(make_batch, [[2.5], [-2.0]]), SEED)
    np.testing.assert_allclose(found, np.log([[9.858827] * 2, [3.875157] * 2]), atol=0.08)


def test_densities_make_up_for_what_the_policy_prefers(make_agent, make_batch):
    """Q is 1 everywhere: whatever is drawn, the integral is 2 e."""
    agent = known(make_agent, sampled_actions=1000)
    linear_critic(agent.critic, [0.0, 0.0], [1.0, 1.0])
    for output in ([0.0, -0.3], [0.5, -0.5]):
        constant_actor(agent.network, output)
        found = agent.soft_maximum(box_batch(make_batch, [[2.5]]), SEED)
        np.testing.assert_allclose(found, np.full((2, 1), np.log(2.0) + 1.0), atol=0.1)


def test_the_loss_is_sacs_with_the_weighted_gap(make_agent, make_batch):
    options = {"reward": np.ones(2), "discount": np.full(2, 0.9), "sample_weight": np.array([1.0, 0.5])}
    batch = box_batch(make_batch, [[2.5], [2.5]], **options)
    plain = known(make_agent, conservative_weight=0.0)
    # The target is 1.347716, Q are 2 and 1.
    errors = np.array([0.652284, 0.347716])
    np.testing.assert_allclose(
        plain.loss(batch, SEED)[0], 0.5 * (errors**2).sum() * np.array([1.0, 0.5]), rtol=1e-2
    )
    agent = known(make_agent, conservative_weight=3.0)
    difference = agent.loss(batch, SEED)[0] - plain.loss(batch, SEED)[0]
    gap = agent.loss(batch, SEED)[1]["conservative_gap"]  # of one critic, mean over the batch
    assert float(difference[0] + 2.0 * difference[1]) == pytest.approx(4.0 * 3.0 * float(gap), rel=1e-4)
    assert float(difference[1]) / float(difference[0]) == pytest.approx(0.5, rel=0.5)
