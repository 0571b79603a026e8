"""CQL for continuous actions: the gap against integrals that are known."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from known_networks import BOX, box_batch, constant_actor, linear_critic

from rl.errors import UsageError
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


def test_every_observation_has_its_own_actions_and_values(make_agent, make_batch):
    """Q is the observation's first number x, and the policy's action tanh(x)."""
    agent = known(make_agent, sampled_actions=10)
    linear_critic(agent.critic, [1.0, 1.0], [0.0, 0.0])
    agent.critic.hidden[0].kernel.assign(of_first(agent.critic.hidden[0].kernel))
    batch = box_batch(make_batch, [[2.5], [-2.0]], observation=np.array([[1.0, 0, 0], [-3.0, 0, 0]]))
    # A third of the draws, the uniform ones, give 2 e^x, the others next to nothing: log(2 / 3) + x.
    np.testing.assert_allclose(agent.soft_maximum(batch, SEED), [[0.594535, -3.405465]] * 2, atol=1e-3)
    layer = agent.network.torso.layers[0]
    layer.kernel.assign(of_first(layer.kernel))
    layer.bias.assign(10.0 * tf.one_hot(0, 8))
    agent.network.policy.kernel.assign(of_first(agent.network.policy.kernel))
    agent.network.policy.bias.assign([-10.0, -12.0])
    action = agent.drawn(batch.observation, SEED)[0][:, :, 0]
    np.testing.assert_allclose(action, np.full((10, 2), [0.761594, -0.995055]).T, atol=1e-3)


def of_first(kernel):
    """Weights of this shape that hand the first input on as the first output."""
    return tf.scatter_nd([[0, 0]], [1.0], kernel.shape[-2:]) + tf.zeros_like(kernel)


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


def test_with_a_threshold_the_weight_falls_below_it_and_grows_above(make_agent, make_batch):
    """Q is 1 everywhere. A third of the draws, the uniform ones, give 2 e, the others next to nothing: the
    gap is log(2 e / 3) - 1 = -0.405465, of both critics."""
    batch = box_batch(make_batch, [[2.5], [-2.0]], sample_weight=np.array([1.0, 0.5]))
    options = {"optimizer": "sgd", "critic_lr": 0.1, "conservative_weight": 3.0}

    def flat(**overrides):
        agent = known(make_agent, **options | overrides)
        linear_critic(agent.critic, [0.0, 0.0], [1.0, 1.0])
        return agent

    fixed, agent = flat(), flat(lagrange_threshold=0.5)
    assert "log_weight" in agent.variables and "log_weight" not in fixed.variables
    plain = flat(conservative_weight=0.0).loss(batch, SEED)[0]
    added = 3.0 * 2.0 * (-0.405465 - 0.5)  # -5.432790, where it is fixed -2.432790
    np.testing.assert_allclose(agent.loss(batch, SEED)[0] - plain, [added, 0.5 * added], rtol=0.02)
    np.testing.assert_allclose(fixed.loss(batch, SEED)[0] - plain, [-2.43279, -1.216395], rtol=0.04)
    metrics = agent.update(batch, SEED).metrics
    assert agent.log_weight.numpy() == pytest.approx(np.log(3.0) - 0.1 * 3.0 * 0.905465, abs=0.006)
    assert float(metrics["conservative_weight"]) == pytest.approx(3.0)  # that of this update
    above = flat(lagrange_threshold=0.5)
    linear_critic(above.critic, [6.0, 6.0], [0.0, 0.0])  # of actions in [-1, 1]; the data's are about 0
    above.update(batch, SEED)
    assert above.log_weight.numpy() > np.log(3.0)


def test_a_threshold_needs_a_weight_to_begin_with(make_agent):
    with pytest.raises(UsageError, match="begin with 1"):
        make_agent("cql", action_space=BOX, lagrange_threshold=5.0, conservative_weight=0.0)
