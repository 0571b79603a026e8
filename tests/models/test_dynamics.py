"""Networks of learned dynamics: their units, their members, what follows a predicted change."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.models.dynamics import Dynamics, Standard
from rl.models.layers import Initializers
from rl.ops.dynamics import soft_clip
from rl.types import Batch

SPACE = spaces.Box(-2.0, 2.0, (2,), np.float32)


@pytest.fixture
def network():
    return Dynamics(3, (8, 4), SPACE, 1, Initializers(0))


@pytest.fixture
def batch():
    generator = np.random.default_rng(1)
    before, after = (tf.constant(generator.uniform(-1.0, 1.0, (6, 2)), tf.float32) for _ in range(2))
    reward, ones = tf.constant(generator.normal(size=6) * 3.0, tf.float32), tf.ones([6])
    return Batch(before, code_of(), reward, ones, after, ones, tf.range(6), ones)


def code_of(count=6):
    return tf.constant(np.linspace(-1.0, 1.0, count)[:, None], tf.float32)


def test_numbers_are_measured_from_their_mean_in_deviations_of_all_that_counted():
    rows = np.random.default_rng(0).normal(3.0, 5.0, (2, 40, 2)).astype(np.float32)
    weight = np.ones((2, 40), np.float32)
    weight[0, :5] = 0.0
    standard = Standard(2, "standard")
    for x, counted in zip(rows, weight, strict=True):
        standard.observe(tf.constant(x), tf.constant(counted))
    seen = rows[weight > 0.0]
    expected = (rows[1] - seen.mean(0)) / seen.std(0)
    np.testing.assert_allclose(standard(rows[1]), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(standard.original(tf.constant(expected)), rows[1], rtol=1e-4, atol=1e-4)


def test_a_rare_jump_is_learned_as_it_is_and_what_is_seen_is_held_back(network):
    """A reward of 100 in one of 1,000 steps: sqrt(999) deviations from the mean, in all numbers there are."""
    reward, zeros = np.zeros(1_000, np.float32), tf.zeros([1_000, 2])
    reward[0] = 100.0
    ones, code = tf.ones([1_000]), tf.zeros([1_000, 1])
    batch = Batch(zeros, code, tf.constant(reward), ones, zeros, ones, tf.range(1_000), ones)
    network.observe(batch, code)
    target = network.target(batch)
    np.testing.assert_allclose(target[0, -1], np.sqrt(999.0), rtol=1e-4)
    np.testing.assert_allclose(network.following(zeros, target)[1], reward, rtol=1e-4, atol=1e-4)
    far, farther = (network(tf.fill([1, 2], x), tf.zeros([1, 1])).mean for x in (1e4, 1e5))
    np.testing.assert_array_equal(far, farther)


def test_some_members_say_what_they_say_among_all(network, batch):
    everyone = network(batch.observation, code_of())
    chosen = network(batch.observation, code_of(), tf.constant([2, 0]))
    for all_of_them, some in zip(everyone, chosen, strict=True):
        np.testing.assert_allclose(some, all_of_them.numpy()[[2, 0]], rtol=1e-5, atol=1e-6)
        assert np.abs(all_of_them[0] - all_of_them[1]).max() > 1e-3


def test_each_member_has_weights_of_its_own(network, batch):
    def changed():
        return network(batch.observation, code_of()).mean.numpy()

    before = changed()
    kernel = network.hidden[1].kernel
    kernel.assign(kernel + tf.constant([0.0, 1.0, 0.0])[:, None, None])
    moved = np.abs(changed() - before).max((1, 2))
    assert moved[1] > 1e-3 and moved[0] == moved[2] == 0.0


def test_a_true_change_leads_to_what_followed(network, batch):
    network.observe(batch, code_of())
    target = network.target(batch)
    np.testing.assert_allclose(tf.reduce_mean(target, 0), np.zeros(3), atol=1e-5)
    np.testing.assert_allclose(tf.math.reduce_std(target, 0), np.ones(3), rtol=1e-4)
    following, reward = network.following(batch.observation, target)
    np.testing.assert_allclose(following, batch.next_observation, atol=1e-5)
    np.testing.assert_allclose(reward, batch.reward, rtol=1e-4, atol=1e-5)


def test_what_follows_is_of_the_observations_space(network, batch):
    following, _ = network.following(batch.observation, tf.constant([[9.0, -9.0, 0.0]] * 6))
    np.testing.assert_array_equal(following, [[2.0, -2.0]] * 6)


def test_each_member_says_of_inputs_of_its_own_what_it_alone_says_of_them(network, batch):
    """Rows 0 and 1 are the first member's, 2 and 3 the second one's."""
    together = network.apart(batch.observation, code_of())
    for m in range(3):
        rows = slice(2 * m, 2 * m + 2)
        alone = network(batch.observation[rows], code_of()[rows], tf.constant([m]))
        for whole, part in zip(together, alone, strict=True):
            np.testing.assert_allclose(whole[m], part[0], rtol=1e-5, atol=1e-6)


def test_a_members_losses_are_its_gaussians_and_its_chance_of_an_end(network, batch):
    """With all outputs 0 but the third member's end, of log odds 1: by hand."""
    for variable in network.trainable_variables:
        variable.assign(tf.zeros_like(variable.value))
    bias = np.zeros((3, 1, 7), np.float32)
    bias[2, 0, 6] = 1.0
    network.out.bias.assign(bias)
    batch = batch._replace(discount=tf.constant([0.0, 0.9] * 3))
    target = np.concatenate([batch.next_observation - batch.observation, batch.reward[:, None]], 1)
    log_variance = soft_clip(tf.constant(0.0), -10.0, 0.5).numpy()
    gaussian = 0.5 * (target**2 * np.exp(-log_variance) + log_variance).sum(1)
    ends = np.array([[0.693147, 0.693147], [0.693147, 0.693147], [0.313262, 1.313262]])  # an end, or none
    np.testing.assert_allclose(network.losses(batch, code_of()), gaussian + np.tile(ends, 3), rtol=1e-4)
