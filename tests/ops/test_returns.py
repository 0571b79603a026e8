"""Advantages and returns against numbers worked by hand, at every kind of episode end."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import returns

# One environment, four steps, gamma = lambda = 1/2, so that gamma * lambda = 1/4.
REWARD = [1.0, 2.0, 3.0, 4.0]
VALUE = [1.0, 2.0, 3.0, 4.0, 5.0]
GAMMA = LAMBDA = 0.5


def column(values, dtype=tf.float32):
    return tf.constant(values, dtype)[:, None]  # [T, 1]


def flags(at=None):
    return column([t == at for t in range(4)], tf.bool)


def advantage(terminated=None, truncated=None):
    arguments = column(REWARD), column(VALUE), flags(terminated), flags(truncated)
    return returns.generalized_advantage(*arguments, GAMMA, LAMBDA)[:, 0].numpy()


def discounted(terminated=None, truncated=None):
    arguments = column(REWARD), column(VALUE), flags(terminated), flags(truncated)
    return returns.discounted_return(*arguments, GAMMA)[:, 0].numpy()


def test_advantage_without_an_episode_end():
    # delta[t] = r[t] + v[t+1] / 2 - v[t]:
    #   1 + 1 - 1 = 1      2 + 1.5 - 2 = 1.5      3 + 2 - 3 = 2      4 + 2.5 - 4 = 2.5
    # A[t] = delta[t] + A[t+1] / 4, from the end:
    #   2.5      2 + 0.625 = 2.625      1.5 + 0.65625 = 2.15625      1 + 0.5390625 = 1.5390625
    np.testing.assert_allclose(advantage(), [1.5390625, 2.15625, 2.625, 2.5])


def test_termination_cuts_bootstrap_and_trace():
    # delta[1] = 2 - 2 = 0 (the terminal state is worth nothing), A[1] = 0, A[0] = 1.
    np.testing.assert_allclose(advantage(terminated=1), [1.0, 0.0, 2.625, 2.5])


def test_truncation_cuts_the_trace_and_bootstraps():
    # delta[1] = 1.5 as if nothing had happened, A[1] = 1.5, A[0] = 1 + 1.5 / 4.
    np.testing.assert_allclose(advantage(truncated=1), [1.375, 1.5, 2.625, 2.5])


def test_a_terminal_state_at_the_time_limit_counts_as_terminal():
    np.testing.assert_allclose(advantage(terminated=1, truncated=1), advantage(terminated=1))


def test_termination_at_the_last_step_ignores_the_last_value():
    # delta[3] = 4 - 4 = 0; A[2] = 2; A[1] = 1.5 + 0.5; A[0] = 1 + 0.5.
    np.testing.assert_allclose(advantage(terminated=3), [1.5, 2.0, 2.0, 0.0])


def test_the_autoreset_row_does_not_reach_the_episode_before_it():
    reward = column([1.0, 2.0, 999.0, 4.0])  # row 2 follows the end in row 1
    for end in ({"terminated": 1}, {"truncated": 1}):
        ends = flags(end.get("terminated")), flags(end.get("truncated"))
        found = returns.generalized_advantage(reward, column(VALUE), *ends, GAMMA, LAMBDA)[:, 0]
        np.testing.assert_allclose(found[:2], advantage(**end)[:2])


def test_discounted_return_without_an_episode_end_bootstraps_from_the_last_value():
    # From v[4] = 5: 4 + 2.5 = 6.5      3 + 3.25 = 6.25      2 + 3.125 = 5.125      1 + 2.5625 = 3.5625
    np.testing.assert_allclose(discounted(), [3.5625, 5.125, 6.25, 6.5])


def test_discounted_return_of_a_terminated_episode_is_its_rewards():
    # 2 at the end, 1 + 2 / 2 before it.
    np.testing.assert_allclose(discounted(terminated=1), [2.0, 2.0, 6.25, 6.5])


def test_discounted_return_of_a_truncated_episode_bootstraps_where_it_was_cut():
    # 2 + v[2] / 2 = 3.5, 1 + 3.5 / 2 = 2.75.
    np.testing.assert_allclose(discounted(truncated=1), [2.75, 3.5, 6.25, 6.5])


def by_definition(reward, value, terminated, truncated, gamma, gae_lambda):
    """Equation 16 as it stands: the sum over l of (gamma lambda)^l delta[t+l], to the episode's end."""
    steps, batch = reward.shape
    result = np.zeros((steps, batch))
    for b in range(batch):
        for t in range(steps):
            for later in range(t, steps):
                following = 0.0 if terminated[later, b] else value[later + 1, b]
                delta = reward[later, b] + gamma * following - value[later, b]
                result[t, b] += (gamma * gae_lambda) ** (later - t) * delta
                if terminated[later, b] or truncated[later, b]:
                    break
    return result


@pytest.mark.parametrize("jit_compile", [False, True])
def test_advantage_equals_its_definition_on_random_episodes(jit_compile):
    generator = np.random.default_rng(0)
    reward = generator.normal(size=(20, 6)).astype(np.float32)
    value = generator.normal(size=(21, 6)).astype(np.float32)
    terminated, truncated = (generator.random((20, 6)) < 0.15 for _ in range(2))
    function = tf.function(returns.generalized_advantage, jit_compile=jit_compile, autograph=False)
    found = function(*map(tf.constant, (reward, value, terminated, truncated)), 0.97, 0.9)
    expected = by_definition(reward, value, terminated, truncated, 0.97, 0.9)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_discounted_return_is_the_advantage_at_lambda_1_plus_the_value():
    generator = np.random.default_rng(1)
    reward = tf.constant(generator.normal(size=(15, 4)), tf.float32)
    value = tf.constant(generator.normal(size=(16, 4)), tf.float32)
    terminated, truncated = (tf.constant(generator.random((15, 4)) < 0.2) for _ in range(2))
    found = returns.discounted_return(reward, value, terminated, truncated, 0.9)
    full = returns.generalized_advantage(reward, value, terminated, truncated, 0.9, 1.0) + value[:-1]
    np.testing.assert_allclose(found, full, rtol=1e-4, atol=1e-5)


def test_reverse_linear_recurrence_starts_from_the_last_value():
    # x[2] = 3 + 1 * 10 = 13, x[1] = 2 + 0 * 13 = 2, x[0] = 1 + 2 * 2 = 5.
    decay, increment = column([2.0, 0.0, 1.0]), column([1.0, 2.0, 3.0])
    found = returns.reverse_linear_recurrence(decay, increment, tf.constant([10.0]))
    np.testing.assert_allclose(found[:, 0], [5.0, 2.0, 13.0])


def test_lambda_return():
    """lambda = 1/2, discounts 1/2, then 0: the third step's successor counts for nothing."""
    reward, value = column([1.0, 2.0, 3.0, 4.0]), column([9.0, 2.0, 4.0, 8.0, 16.0])
    discount = column([0.5, 0.5, 0.0, 0.5])
    # R3 = 4 + 16 / 2; R2 = 3 + 0; R1 = 2 + 0.5 (0.5 * 4 + 0.5 * 3); R0 = 1 + 0.5 (0.5 * 2 + 0.5 * 3.75)
    found = returns.lambda_return(reward, discount, value, 0.5)[:, 0]
    np.testing.assert_allclose(found, [2.4375, 3.75, 3.0, 12.0])
