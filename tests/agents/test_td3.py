"""TD3: twin critics, smoothed targets and delayed updates, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX, box_batch, constant_actor, linear_critic, same, values

from rl.errors import UsageError
from rl.ops import random

SEED = random.key(0)


@pytest.fixture
def known(make_agent):
    """mu = tanh(0.5) = 0.462117; Q = 2 a + 1 and a + 0.5; mu' = 0; Q' = 3 a - 1 and 2 - a."""
    agent = make_agent("td3", action_space=BOX, target_noise=0.0)
    constant_actor(agent.network, [0.5])
    constant_actor(agent.target_network, [0.0])
    linear_critic(agent.critic, [2.0, 1.0], [1.0, 0.5])
    linear_critic(agent.target_critic, [3.0, -1.0], [-1.0, 2.0])
    return agent


def test_the_critics_loss_by_hand(known, make_batch):
    # The action 2.5 is 0.5 in [-1, 1]: Q = 2 and 1. Target: 1 + 0.9 min(-1, 2) = 0.1, errors -1.9 and -0.9.
    batch = box_batch(
        make_batch, [[2.5]], reward=np.ones(1), discount=np.array([0.9]), sample_weight=np.array([0.5])
    )
    loss, metrics, priorities = known.loss(batch, SEED)
    np.testing.assert_allclose(loss, [0.5 * (1.9**2 + 0.9**2)], rtol=1e-5)
    np.testing.assert_allclose(priorities, [1.4], rtol=1e-5)
    np.testing.assert_allclose([metrics["q_value"], metrics["td_error"]], [1.5, 1.4], rtol=1e-5)


def test_the_policy_climbs_the_first_critic_alone(known, make_batch):
    batch = box_batch(make_batch, [[0.0], [0.0]], mask=np.array([1.0, 0.0]))
    with tf.GradientTape() as tape:
        loss = known.policy_loss(batch, SEED)[0]
    np.testing.assert_allclose(loss, [-1.924234, 0.0], rtol=1e-5)
    gradients = tape.gradient(loss, known.critic.value.kernel.value)
    assert gradients[0].numpy().any() and not gradients[1].numpy().any()


def test_target_actions_are_smoothed_by_clipped_noise(make_agent, make_batch):
    agent = make_agent("td3", action_space=BOX, target_noise=0.3, target_noise_clip=0.4)
    constant_actor(agent.target_network, [0.8])  # tanh: 0.664037, so that 1 is reached
    linear_critic(agent.target_critic, [1.0, 2.0], [0.0, 5.0])  # the lesser is the action itself
    batch = box_batch(make_batch, np.ones((2000, 1)), reward=np.zeros(2000), discount=np.ones(2000))
    found = agent.target(batch, SEED).numpy()
    noise = np.clip(0.3 * random.normal(SEED, [2000, 1]).numpy()[:, 0], -0.4, 0.4)
    np.testing.assert_allclose(found, np.clip(0.664037 + noise, -1.0, 1.0), rtol=1e-4)
    np.testing.assert_allclose([found.min(), found.max()], [0.264037, 1.0], rtol=1e-4)


def test_policy_and_targets_wait_for_every_second_update(make_agent, make_batch):
    agent = make_agent("td3", action_space=BOX, policy_update_period=2, tau=0.25, lr=0.01)
    waiting = [agent.network, agent.target_network, agent.target_critic]
    for update in range(1, 5):
        before, critic = [values(each) for each in waiting], values(agent.critic)
        metrics = agent.update(box_batch(make_batch, np.ones((6, 1)), seed=update), SEED).metrics
        assert not same(values(agent.critic), critic)
        moved = [not same(values(each), old) for each, old in zip(waiting, before, strict=True)]
        assert moved == [update % 2 == 0] * 3
        assert (float(metrics["policy_loss"]) != 0.0) == (update % 2 == 0)
    assert int(agent.updates.numpy()) == 4


def test_the_logged_policy_loss_is_right_in_the_mean_over_updates(known, make_batch):
    batch = box_batch(make_batch, np.ones((6, 1)))
    expected = float(known.policy_loss(batch, SEED)[1]["policy_loss"])
    known.optimizers["critic"].learning_rate.assign(0.0)
    logged = [float(known.update(batch, SEED).metrics["policy_loss"]) for _ in range(2)]
    np.testing.assert_allclose(np.mean(logged), expected, rtol=1e-5)


def test_the_two_critics_start_apart(make_agent, make_batch):
    agent = make_agent("td3", action_space=BOX)
    q_values = agent.critic(make_batch().observation, tf.zeros([6, 1])).numpy()
    assert q_values.shape == (2, 6, 1) and (q_values[0] != q_values[1]).all()
    assert same(values(agent.critic), values(agent.target_critic))


def test_other_action_spaces_are_refused(make_agent):
    with pytest.raises(UsageError, match="td3 acts in Box action spaces"):
        make_agent("td3", action_space=spaces.Discrete(2))
    with pytest.raises(UsageError, match="td3 squashes its actions into the space's bounds"):
        make_agent("td3", action_space=spaces.Box(0.0, np.inf, (1,)))
