"""Behaviour cloning: likelihoods by hand, and the policy that data are fitted by."""

from __future__ import annotations

import math

import numpy as np
import own_data
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX, box_batch

from rl.ops import random
from rl.runners.evaluate import Evaluator

SEED = random.key(0)


def constant(network, parameters):
    """Makes the policy's parameters the same everywhere."""
    network.policy.kernel.assign(tf.zeros_like(network.policy.kernel))
    network.policy.bias.assign(tf.constant(parameters, tf.float32))


def test_the_loss_of_discrete_actions_is_the_cross_entropy(make_agent, make_batch):
    agent = make_agent("bc")
    constant(agent.network, np.log([0.5, 0.3, 0.2]))
    batch = make_batch(count=3, action=np.array([0, 1, 2]), mask=np.array([1.0, 1.0, 0.0]))
    loss, metrics, priorities = agent.loss(batch, SEED)
    np.testing.assert_allclose(loss, [-math.log(0.5), -math.log(0.3), 0.0], rtol=1e-5)
    np.testing.assert_allclose(metrics["log_prob"], (math.log(0.5) + math.log(0.3)) / 2.0, rtol=1e-5)
    assert priorities is None


def test_the_loss_of_bounded_actions_is_the_density_of_a_normal_within_the_bounds(make_agent, make_batch):
    """Within -2 and 4 the mean is 1 + 3 tanh(0.5) = 2.386351, the deviation 3 exp(-1) = 1.103638."""
    agent = make_agent("bc", action_space=BOX)
    constant(agent.network, [0.5])
    agent.network.log_std.assign([-1.0])
    batch = box_batch(make_batch, [[2.5]])
    log_prob = -0.5 * ((2.5 - 2.386351) / 1.103638) ** 2 - math.log(1.103638) - 0.918939
    np.testing.assert_allclose(agent.loss(batch, SEED)[0], [-log_prob], rtol=1e-5)


def test_means_of_actions_without_bounds_are_anywhere(make_agent, make_batch):
    agent = make_agent("bc", action_space=spaces.Box(-np.inf, np.inf, (1,), np.float32))
    constant(agent.network, [7.0])
    found = agent.network(make_batch(count=1).observation)
    np.testing.assert_allclose(found.mode(), [[7.0]])
    np.testing.assert_allclose(found.log_prob(tf.constant([[8.0]])), [-0.5 - 0.918939], rtol=1e-5)


def test_deviations_stay_where_data_agree(make_agent, make_batch):
    agent = make_agent("bc", action_space=BOX)
    agent.network.log_std.assign([-50.0])
    found = agent.network(box_batch(make_batch, [[2.5]]).observation)
    np.testing.assert_allclose(found.log_std, [[math.log(3.0) - 5.0]], rtol=1e-5)


def test_it_does_what_most_of_the_data_do(build, tmp_path):
    """They push the cart to where the pole falls in nine of ten steps."""
    right = own_data.mostly(lambda seen: int(seen[2] + 0.5 * seen[3] > 0.0), spaces.Discrete(2), 0.8)
    data = own_data.play(tmp_path / "data", "CartPole-v1", right, episodes=10)
    runner = build("bc_cartpole", data=str(tmp_path / "data"))
    assert runner.run(20)["updates"] == 1000.0
    evaluator = Evaluator(runner.agent, 5)
    assert evaluator.run(0).returns.mean() > max(data.returns.mean(), 400.0)
    evaluator.close()
