"""Scores, ranks, selection and the gradient estimate against literal numbers and analytic gradients."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import evolution, random


def time_major(rows):
    """[T, B] from one list per environment."""
    return np.array(rows).T


def test_a_score_is_the_mean_return_of_the_finished_episodes():
    reward = time_major(
        [
            [1.0, 2.0, 3.0, 0.0, 10.0, 7.0],  # returns 6 and 10; the 7 belongs to none that finished
            [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],  # finished none
            [5.0, 0.0, 5.0, 0.0, 5.0, 0.0],  # three of one step, the last cut by the time limit
            [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],  # one, which ends with the rollout
        ]
    )
    ended = time_major(
        [
            [False, False, True, False, True, False],
            [False] * 6,
            [True, False, True, False, True, False],
            [False] * 5 + [True],
        ]
    )
    mask = time_major([[1, 1, 1, 0, 1, 0], [1] * 6, [1, 0, 1, 0, 1, 0], [1] * 6])
    arguments = tf.constant(reward, tf.float32), tf.constant(ended), tf.constant(mask, tf.float32)
    for compiled in (False, True):
        scores = tf.function(evolution.episode_scores, jit_compile=compiled, autograph=False)(*arguments)
        np.testing.assert_allclose(scores, [8.0, 6.0, 5.0, 6.0])


def test_rewards_of_autoreset_steps_do_not_count():
    reward, mask = tf.constant([[1.0], [9.0], [2.0]]), tf.constant([[1.0], [0.0], [1.0]])
    ended = tf.constant([[True], [False], [True]])
    np.testing.assert_allclose(evolution.episode_scores(reward, ended, mask), [1.5])


@pytest.mark.parametrize(
    ("score", "ranks"),
    [
        ([30.0, -1.0, 2.0, 500.0, 7.0], [0.25, -0.5, -0.25, 0.5, 0.0]),
        ([1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]),
        ([0.0, 5.0, 5.0], [-0.5, 0.25, 0.25]),  # ranks 0, 1, 2 over 2, the tie's mean 1.5 / 2
        ([4.0], [0.0]),
    ],
)
def test_ranks_run_from_minus_to_plus_one_half_and_ties_share(score, ranks):
    np.testing.assert_allclose(evolution.centered_ranks(tf.constant(score)), ranks)


def test_without_ties_ranks_are_those_of_sorting_twice():
    score = np.random.default_rng(0).normal(size=64).astype(np.float32)
    expected = np.argsort(np.argsort(score)) / 63.0 - 0.5
    np.testing.assert_allclose(evolution.centered_ranks(tf.constant(score)), expected, atol=1e-6)


def test_the_estimate_weighs_each_direction_by_its_pairs_difference():
    noise = tf.constant([[1.0, 0.0, -2.0], [0.5, 1.0, 4.0]])
    value = tf.constant([3.0, 1.0, 1.0, 5.0])  # differences 3 - 1 = 2 and 1 - 5 = -4
    # [2 * 1 - 4 * 0.5, 2 * 0 - 4 * 1, 2 * -2 - 4 * 4] / (2 * 2 * 0.1)
    expected = np.array([0.0, -4.0, -20.0]) / 0.4
    np.testing.assert_allclose(evolution.antithetic_gradient(value, noise, 0.1), expected, rtol=1e-6)


def test_along_orthogonal_directions_the_estimate_of_a_quadratic_is_its_gradient():
    """Central differences of a quadratic are exact: with noise sqrt(n) * I the estimate has no variance."""
    curvature, theta = np.array([[3.0, 1.0], [1.0, 2.0]]), np.array([0.5, -2.0])
    noise = np.sqrt(2.0) * np.eye(2)

    def f(x):
        return 0.5 * x @ curvature @ x + 4.0 * x[0]

    value = [f(theta + 0.3 * each) for each in noise] + [f(theta - 0.3 * each) for each in noise]
    found = evolution.antithetic_gradient(tf.constant(value), tf.constant(noise), 0.3)
    np.testing.assert_allclose(found, [3.0 * 0.5 - 2.0 + 4.0, 0.5 - 4.0], rtol=1e-6)  # A theta + (4, 0)


def test_over_many_directions_the_estimate_is_the_gradient_of_a_quadratic():
    theta, target = np.array([1.0, -2.0, 0.5], np.float32), np.array([0.0, 1.0, 3.0], np.float32)
    directions, std = 200_000, 0.5
    noise = random.normal(random.key(1), [directions, 3]).numpy()

    def f(x):
        return np.sum((x - target) ** 2, -1)

    value = np.concatenate([f(theta + std * noise), f(theta - std * noise)]).astype(np.float32)
    found = evolution.antithetic_gradient(tf.constant(value), tf.constant(noise), std).numpy()
    gradient = 2.0 * (theta - target)
    # One direction's estimate is (gradient . noise) noise: variance |gradient|^2 + gradient_i^2.
    deviation = np.sqrt((np.sum(gradient**2) + gradient**2) / directions)
    assert (np.abs(found - gradient) < 4.0 * deviation).all()


def test_directions_are_ordered_by_the_better_of_their_pair():
    score = tf.constant([1.0, 9.0, 3.0, 0.0, 2.0, -5.0, 8.0, 4.0])  # the better ones: 2, 9, 8, 4
    np.testing.assert_array_equal(evolution.top_directions(score, 4), [1, 2, 3, 0])
    np.testing.assert_array_equal(evolution.top_directions(score, 2), [1, 2])


def test_unflatten_undoes_flatten():
    generator = np.random.default_rng(0)
    shapes = [(3, 2), (2,), (2, 1), (1,)]
    tensors = [tf.constant(generator.normal(size=shape), tf.float32) for shape in shapes]
    vector = evolution.flatten(tensors)
    assert vector.shape == (11,)
    for found, expected in zip(evolution.unflatten(vector, shapes), tensors, strict=True):
        np.testing.assert_array_equal(found, expected)
    pair = tf.stack([vector, -vector])
    for found, expected in zip(evolution.unflatten(pair, shapes), tensors, strict=True):
        np.testing.assert_array_equal(found, tf.stack([expected, -expected]))
