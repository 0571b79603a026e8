"""Discrete SAC: its losses by hand, its target entropy, action masks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import constant_actor, same, values

from rl.ops import random

SEED = random.key(0)
MASKED = spaces.Dict({"x": spaces.Box(-1.0, 1.0, (2,)), "action_mask": spaces.MultiBinary(3)})
CHANCES = np.array([0.5, 0.25, 0.25])
ENTROPY = 1.0397208  # 0.5 log 2 + 0.5 log 4


def constant_critic(critic, q_values):
    """Critic c values action a at q_values[c][a] in every state."""
    for variable in critic.trainable_variables:
        variable.assign(tf.zeros_like(variable.value))
    critic.value.bias.assign(np.array(q_values, np.float32)[:, None, :])


@pytest.fixture
def known(make_agent):
    agent = make_agent("sac_discrete", temperature=0.5, target_entropy_scale=0.98)
    constant_actor(agent.network, np.log(CHANCES))
    constant_critic(agent.critic, [[1.0, 2.0, 3.0], [2.0, 1.0, 4.0]])
    constant_critic(agent.target_critic, [[4.0, 0.0, 8.0], [2.0, 4.0, 8.0]])
    return agent


def test_the_critics_loss_by_hand(known, make_batch):
    # V' = 0.5 * 2 + 0.25 * 0 + 0.25 * 8 + 0.5 * 1.0397208 = 3.5198604; target 1 + 0.9 V' = 4.1678744.
    # Of action 1 the critics think 2 and 1: errors 2.1678744 and 3.1678744.
    batch = make_batch(
        count=2,
        action=np.array([1, 1]),
        reward=np.ones(2),
        discount=np.array([0.9, 0.0]),
        sample_weight=np.array([1.0, 0.5]),
    )
    loss, metrics, priorities = known.loss(batch, SEED)
    np.testing.assert_allclose(loss, [7.3675538, 0.25], rtol=1e-5)
    np.testing.assert_allclose(priorities, [2.6678744, 0.5], rtol=1e-5)
    np.testing.assert_allclose(metrics["q_value"], 1.5, rtol=1e-5)


def test_the_policys_loss_by_hand(known, make_batch):
    # Lesser values 1, 1, 3: 0.5 + 0.25 + 0.75 = 1.5 expected; -0.5 * 1.0397208 - 1.5.
    loss, metrics, _ = known.policy_loss(make_batch(count=2, mask=np.array([1.0, 0.0])), SEED)
    np.testing.assert_allclose(loss, [-2.0198604, 0.0], rtol=1e-5)
    np.testing.assert_allclose(metrics["entropy"], ENTROPY, rtol=1e-5)
    np.testing.assert_allclose(metrics["target_entropy"], 0.98 * np.log(3.0), rtol=1e-5)


def test_the_policys_gradient_by_hand(known, make_batch):
    # By logit i: p_i (c_i - sum_k p_k c_k) with c = temperature * log p - Q.
    cost = 0.5 * np.log(CHANCES) - [1.0, 1.0, 3.0]
    with tf.GradientTape() as tape:
        loss = known.policy_loss(make_batch(count=1), SEED)[0]
    gradient = tape.gradient(loss, known.network.policy.bias.value)
    np.testing.assert_allclose(gradient, CHANCES * (cost - CHANCES @ cost), rtol=1e-4)


@pytest.mark.parametrize(("scale", "direction"), [(0.5, -1.0), (1.5, 1.0)])
def test_the_temperature_follows_the_excess_of_entropy(make_agent, make_batch, scale, direction):
    agent = make_agent("sac_discrete", target_entropy_scale=scale, temperature_lr=0.01)
    agent.update(make_batch(), SEED)  # the first policy is close to uniform
    np.testing.assert_allclose(agent.log_temperature.numpy(), direction * 0.01, rtol=1e-3)


def test_each_update_moves_policy_critics_and_their_targets(make_agent, make_batch):
    agent = make_agent("sac_discrete", tau=0.25, lr=0.01)
    assert same(values(agent.critic), values(agent.target_critic))
    before = {name: values(network) for name, network in agent.networks.items()}
    agent.update(make_batch(), SEED)
    assert all(not same(values(network), before[name]) for name, network in agent.networks.items())
    targets = values(agent.target_critic), before["target_critic"], values(agent.critic)
    for target, old, critic in zip(*targets, strict=True):
        np.testing.assert_allclose(target, 0.25 * critic + 0.75 * old, rtol=1e-5, atol=1e-7)


def test_illegal_actions_have_no_part_in_anything(make_agent, make_batch):
    settings = {"temperature": 0.5, "random_steps": 50, "target_entropy_scale": 0.98}
    agent = make_agent("sac_discrete", observation_space=MASKED, **settings)
    constant_actor(agent.network, [0.0, 9.0, 0.0])
    constant_critic(agent.critic, [[1.0, 50.0, 3.0]] * 2)
    constant_critic(agent.target_critic, [[2.0, 50.0, 4.0]] * 2)
    mask = np.repeat([[1, 0, 1]], 300, 0)
    observation = {"x": tf.zeros([300, 2]), "action_mask": tf.constant(mask)}
    for step, training in ((0, True), (50, True)):
        action = agent.act(observation, (), SEED, tf.constant(step, tf.int64), training)[0].numpy()
        assert set(action) == {0, 2}
    batch = make_batch(count=300, action=np.zeros(300), reward=np.zeros(300), discount=np.ones(300))._replace(
        observation=observation, next_observation=observation
    )
    # Two legal actions, equally likely: entropy log 2.
    np.testing.assert_allclose(agent.target(batch, SEED), np.full(300, 3.0 + 0.5 * np.log(2.0)), rtol=1e-5)
    with tf.GradientTape() as tape:
        loss, metrics, _ = agent.policy_loss(batch, SEED)
    np.testing.assert_allclose(loss, np.full(300, -0.5 * np.log(2.0) - 2.0), rtol=1e-5)
    np.testing.assert_allclose(metrics["entropy"], np.log(2.0), rtol=1e-5)
    np.testing.assert_allclose(metrics["target_entropy"], 0.98 * np.log(2.0), rtol=1e-5)
    gradient = tape.gradient(loss, agent.network.policy.bias.value)
    assert np.isfinite(gradient).all() and gradient[1] == 0.0
