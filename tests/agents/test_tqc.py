"""TQC: its losses by hand, and what `dropped_quantiles` leaves."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from known_networks import BOX, box_batch, constant_actor, values
from scipy import stats

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random

SEED = random.key(0)
MEAN, LOG_STD = 0.5, -1.0
QUANTILES = np.array([[0.0, 2.0, 10.0], [1.0, 3.0, 4.0]])  # of the two critics, in every state
TARGETS = np.array([[1.0, 0.0, 8.0], [3.0, 9.0, 2.0]])  # of the target critics


def constant_critic(critic, quantiles):
    """Critic c gives quantiles[c] for every state and action."""
    for variable in critic.trainable_variables:
        variable.assign(tf.zeros_like(variable.value))
    critic.value.bias.assign(np.asarray(quantiles, np.float32)[:, None, :])


@pytest.fixture
def known(make_agent):
    """tanh(u), u normal (0.5, e^-1); temperature 0.2; a quantile of each critic is dropped."""
    settings = {"temperature": 0.2, "quantiles": 3, "dropped_quantiles": 1, "critics": 2}
    agent = make_agent("tqc", action_space=BOX, **settings)
    constant_actor(agent.network, [MEAN, LOG_STD])
    constant_critic(agent.critic, QUANTILES)
    constant_critic(agent.target_critic, TARGETS)
    return agent


def log_density(seed, count):
    """Log density of tanh(u) in [-1, 1] of the samples that `seed` gives, in 64 bits."""
    noise = random.normal(seed, [count, 1]).numpy().astype(np.float64)[:, 0]
    return stats.norm.logpdf(noise) - LOG_STD - np.log(1.0 - np.tanh(MEAN + np.exp(LOG_STD) * noise) ** 2)


def test_targets_are_the_lowest_quantiles_of_both_critics_less_the_entropy_s_price(known, make_batch):
    batch = box_batch(make_batch, np.zeros((5, 1)))
    kept = np.array([0.0, 1.0, 2.0, 3.0])  # of 0, 1, 2, 3, 8, 9 the two largest are dropped
    following = kept - 0.2 * log_density(SEED, 5)[:, None]
    expected = np.asarray(batch.reward)[:, None] + np.asarray(batch.discount)[:, None] * following
    np.testing.assert_allclose(known.target(batch, SEED), expected, rtol=1e-4, atol=1e-5)


def test_the_critics_loss_by_hand(known, make_batch):
    # Without a next state, the targets are the reward, four times.
    batch = box_batch(make_batch, np.zeros((5, 1)), mask=np.array([1.0, 1, 1, 1, 0]))
    batch = batch._replace(discount=tf.zeros([5]), reward=tf.fill([5], 2.5))
    loss, metrics, priorities = known.loss(batch, SEED)
    # Errors 2.5, 0.5, -7.5 and 1.5, -0.5, -1.5; Huber 2, 0.125, 7 and 1, 0.125, 1; the weights are 1/6, 1/2,
    # 5/6 of positive errors, 5/6, 1/2, 1/6 of negative ones.
    first = (2.0 / 6 + 0.125 / 2 + 7.0 / 6) / 3
    second = (1.0 / 6 + 0.125 / 2 + 1.0 / 6) / 3
    expected = (first + second) * np.asarray(batch.sample_weight) * np.asarray(batch.mask)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    # Means 4 and 8/3 against 2.5.
    np.testing.assert_allclose(priorities, np.full(5, (1.5 + 1 / 6) / 2), rtol=1e-5)
    np.testing.assert_allclose(metrics["q_value"], 20 / 6, rtol=1e-5)


def test_the_policy_maximises_the_mean_of_all_quantiles_of_all_critics(known, make_batch):
    batch = box_batch(make_batch, np.zeros((5, 1)))
    loss = known.policy_loss(batch, SEED)[0]
    np.testing.assert_allclose(loss, 0.2 * log_density(SEED, 5) - 20 / 6, rtol=1e-4)


def test_nothing_is_dropped_where_that_is_asked(make_agent, make_batch):
    agent = make_agent("tqc", action_space=BOX, quantiles=3, dropped_quantiles=0, critics=2)
    constant_critic(agent.target_critic, TARGETS)
    batch = box_batch(make_batch, np.zeros((2, 1)))
    target = agent.target(batch._replace(reward=tf.zeros([2]), discount=tf.ones([2])), SEED).numpy()
    np.testing.assert_allclose(np.diff(target), [[1.0, 1.0, 1.0, 5.0, 1.0]] * 2, atol=1e-5)


def test_there_are_as_many_critics_as_asked_and_all_of_them_learn(make_agent, make_batch):
    agent = make_agent("tqc", action_space=BOX, critics=5, lr=0.01)
    before = values(agent.critic)
    agent.update(box_batch(make_batch, np.ones((6, 1))), SEED)
    after = values(agent.critic)
    assert {len(each) for each in after} == {5}
    assert all((x != y).reshape(5, -1).any(1).all() for x, y in zip(before, after, strict=True))


def test_dropping_every_quantile_is_refused():
    with pytest.raises(UsageError, match="dropped_quantiles=25 leaves none of quantiles=25: take fewer"):
        resolve("tqc", {"env": "Pendulum-v1", "dropped_quantiles": 25})
