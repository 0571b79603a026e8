"""MARWIL: weights by hand, and BC where advantages do not weigh."""

from __future__ import annotations

import math

import numpy as np
import own_data
import pytest
import tensorflow as tf
from known_networks import linear_critic

from rl.ops import random
from rl.runners.evaluate import Evaluator

SEED = random.key(0)


@pytest.fixture
def known(make_agent):
    """pi = (0.5, 0.3, 0.2) and V = 2 everywhere."""
    agent = make_agent("marwil", beta=0.5, max_weight=3.0, advantage_rate=0.25)
    agent.network.policy.kernel.assign(tf.zeros_like(agent.network.policy.kernel))
    agent.network.policy.bias.assign(np.log([0.5, 0.3, 0.2]))
    linear_critic(agent.value, [0.0], [2.0], actions=1)
    return agent


def batch_of(make_batch):
    # Returns 1 + 0.9 * 2 = 2.8, 6 and -4: advantages 0.8, 4 and -6.
    reward, discount = np.array([1.0, 6.0, -4.0]), np.array([0.9, 0.0, 0.0])
    return make_batch(count=3, action=np.array([0, 1, 2]), reward=reward, discount=discount)


def test_the_policys_loss_by_hand(known, make_batch):
    known.square_advantage.assign(4.0)  # so that weights are exp(0.5 A / 2), at most 3
    loss, metrics, _ = known.loss(batch_of(make_batch), SEED)
    weights = [math.exp(0.2), math.e, math.exp(-1.5)]
    np.testing.assert_allclose(loss, -np.array(weights) * np.log([0.5, 0.3, 0.2]), rtol=1e-5)
    np.testing.assert_allclose(metrics["weight"], sum(weights) / 3.0, rtol=1e-5)
    known.square_advantage.assign(1.0)
    np.testing.assert_allclose(known.loss(batch_of(make_batch), SEED)[0][1], -3.0 * math.log(0.3), rtol=1e-5)


def test_the_values_loss_is_half_the_squared_advantage(known, make_batch):
    loss = known.value_loss(batch_of(make_batch), SEED)[0]
    np.testing.assert_allclose(loss, [0.32, 8.0, 18.0], rtol=1e-5)


def test_empty_rows_teach_neither_policy_nor_value(known, make_batch):
    batch = batch_of(make_batch)._replace(mask=tf.constant([1.0, 0.0, 0.0]))
    for loss in (known.loss(batch, SEED)[0], known.value_loss(batch, SEED)[0]):
        assert (loss.numpy() != 0.0).tolist() == [True, False, False]


def test_the_scale_is_the_mean_square_so_far_until_it_has_its_rate(known, make_batch):
    for optimizer in known.optimizers.values():
        optimizer.learning_rate.assign(0.0)
    batch = batch_of(make_batch)
    square = (0.64 + 16.0 + 36.0) / 3.0
    found = []
    for reward in (batch.reward, 0.0 * batch.reward + 2.0 - 2.0 * batch.discount, batch.reward):
        known.update(batch._replace(reward=reward), SEED)  # the second one's advantages are 0
        found.append(float(known.square_advantage.numpy()))
    np.testing.assert_allclose(found, [square, square / 2.0, square / 2.0 + square / 6.0], rtol=1e-4)
    known.updates.assign(100)
    known.square_advantage.assign(0.0)
    known.update(batch, SEED)
    np.testing.assert_allclose(known.square_advantage.numpy(), 0.25 * square, rtol=1e-4)


def test_with_beta_0_it_is_bc_to_the_bit(build, tmp_path, state_of, assert_same_bits):
    own_data.play(tmp_path / "data", "CartPole-v1", episodes=5)
    found = []
    for name, own in (("bc", {}), ("marwil", {"beta": 0.0})):
        options = {"data": str(tmp_path / "data"), "model.hidden": (8,), "lr": 1e-3, "env": "CartPole-v1"}
        runner = build(name, **options, **own)
        runner.run(2)
        found.append({key: x for key, x in state_of(runner).items() if key.startswith("network/")})
    assert len(found[0]) == 4
    assert_same_bits(*found)


def test_it_does_what_went_well_where_all_was_tried_alike(build, tmp_path):
    own_data.play(tmp_path / "data", "Identity-v0", episodes=50)
    runner = build("marwil_identity", data=str(tmp_path / "data"))
    runner.run(50)
    evaluator = Evaluator(runner.agent, 5)
    assert evaluator.run(0).returns.mean() == 20.0
    evaluator.close()
