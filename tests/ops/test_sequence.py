"""Targets and priorities along sequences against numbers worked by hand, and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import returns, sequence
from rl.types import Trajectory

# One environment, four steps, gamma 1/2.
REWARD = [1.0, 2.0, 3.0, 4.0]
VALUE = [1.0, 2.0, 3.0, 4.0, 5.0]
GAMMA = 0.5


def column(values, dtype=tf.float32):
    return tf.constant(values, dtype)[:, None]  # [T, 1]


def flags(at=None, count=4):
    return column([t == at for t in range(count)], tf.bool)


def n_step(n, terminated=None, truncated=None):
    ends = flags(terminated), flags(truncated)
    return sequence.n_step_target(column(REWARD), column(VALUE), *ends, GAMMA, n)[:, 0].numpy()


def test_value_rescaling_by_hand():
    # sqrt(3 + 1) - 1 + 0.003, sqrt(8 + 1) - 1 + 0.008, sqrt(99 + 1) - 1 + 0.099
    x = tf.constant([0.0, 3.0, -8.0, 99.0, -3.0])
    h = [0.0, 1.003, -2.008, 9.099, -1.003]
    np.testing.assert_allclose(sequence.rescale_value(x), h, rtol=1e-6)
    np.testing.assert_allclose(sequence.unscale_value(tf.constant(h)), x, rtol=1e-6)
    np.testing.assert_allclose(sequence.rescale_value(x, 1.0), [0.0, 4.0, -10.0, 108.0, -4.0], rtol=1e-6)
    np.testing.assert_allclose(sequence.unscale_value(tf.constant([4.0, -10.0]), 1.0), [3.0, -8.0], rtol=1e-6)


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2, 1.0])
def test_value_rescaling_equals_the_papers_formulas_at_every_size(epsilon):
    x = np.concatenate([sign * np.logspace(-6, 6, 61) for sign in (-1.0, 1.0)])
    h = np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x
    # Pohlen et al. 2018, proposition A.2 (iii), in float64
    root = np.sqrt(1 + 4 * epsilon * (np.abs(h) + 1 + epsilon))
    np.testing.assert_allclose(np.sign(h) * (((root - 1) / (2 * epsilon)) ** 2 - 1), x, rtol=1e-4)
    found = sequence.rescale_value(tf.constant(x, tf.float32), epsilon)
    np.testing.assert_allclose(found, h, rtol=1e-6)
    np.testing.assert_allclose(sequence.unscale_value(found, epsilon), x, rtol=3e-6)


def test_value_rescaling_without_the_linear_part_is_inverted_too():
    x = tf.constant([-120.0, -0.5, 0.0, 1e-5, 8.0])
    np.testing.assert_allclose(sequence.unscale_value(sequence.rescale_value(x, 0.0), 0.0), x, rtol=1e-5)


def test_one_step_targets():
    # 1 + 2 / 2      2 + 3 / 2      3 + 4 / 2      4 + 5 / 2
    np.testing.assert_allclose(n_step(1), [2.0, 3.5, 5.0, 6.5])


def test_two_step_targets_have_one_step_at_the_end_of_the_sequence():
    # 1 + 2/2 + 3/4      2 + 3/2 + 4/4      3 + 4/2 + 5/4      4 + 5/2
    np.testing.assert_allclose(n_step(2), [2.75, 4.5, 6.25, 6.5])


def test_three_step_targets():
    # 1 + 2/2 + 3/4 + 4/8      2 + 3/2 + 4/4 + 5/8      3 + 4/2 + 5/4      4 + 5/2
    np.testing.assert_allclose(n_step(3), [3.25, 5.125, 6.25, 6.5])


def test_n_of_the_whole_sequence_and_beyond_is_the_bootstrapped_return():
    # 6.5 from behind; 3 + 6.5 / 2 = 6.25; 2 + 6.25 / 2 = 5.125; 1 + 5.125 / 2 = 3.5625
    for n in (4, 5, 100):
        np.testing.assert_allclose(n_step(n), [3.5625, 5.125, 6.25, 6.5])


def test_termination_cuts_the_rewards_and_the_bootstrap():
    # 1 + 2 / 2, 2, and after the end as if nothing had been
    np.testing.assert_allclose(n_step(2, terminated=1), [2.0, 2.0, 6.25, 6.5])
    np.testing.assert_allclose(n_step(3, terminated=1), [2.0, 2.0, 6.25, 6.5])


def test_truncation_cuts_the_rewards_and_bootstraps_there():
    # 1 + 2 / 2 + 3 / 4, 2 + 3 / 2: never a reward of the next episode
    np.testing.assert_allclose(n_step(2, truncated=1), [2.75, 3.5, 6.25, 6.5])
    np.testing.assert_allclose(n_step(3, truncated=1), [2.75, 3.5, 6.25, 6.5])
    np.testing.assert_allclose(n_step(1, truncated=1), n_step(1))


def test_a_terminal_state_at_the_time_limit_counts_as_terminal():
    np.testing.assert_allclose(n_step(3, terminated=1, truncated=1), n_step(3, terminated=1))


def n_step_by_definition(reward, value, terminated, truncated, gamma, n):
    steps, batch = reward.shape
    result = np.zeros((steps, batch))
    for b in range(batch):
        for t in range(steps):
            for k in range(n):
                result[t, b] += gamma**k * reward[t + k, b]
                last = t + k
                if terminated[last, b] or truncated[last, b] or last + 1 == steps:
                    break
            result[t, b] += gamma ** (k + 1) * (0.0 if terminated[last, b] else value[last + 1, b])
    return result


def random_sequences(seed=0, steps=20, batch=6):
    generator = np.random.default_rng(seed)
    reward = generator.normal(size=(steps, batch)).astype(np.float32)
    value = generator.normal(size=(steps + 1, batch)).astype(np.float32)
    terminated, truncated = (generator.random((steps, batch)) < 0.12 for _ in range(2))
    return generator, reward, value, terminated, truncated


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_n_step_targets_equal_their_definition_on_random_episodes(n, jit_compile):
    _, *arrays = random_sequences()
    function = tf.function(sequence.n_step_target, jit_compile=jit_compile, autograph=False)
    found = function(*map(tf.constant, arrays), 0.97, n)
    np.testing.assert_allclose(found, n_step_by_definition(*arrays, 0.97, n), rtol=1e-4, atol=1e-5)


# Retrace: three steps, gamma 1/2. Errors: 1 + 2/2 - 1 = 1, 2 + 4/2 - 3 = 1, 3 + 6/2 - 5 = 1.
RETRACE = [1.0, 2.0, 3.0], [9.0, 2.0, 4.0, 6.0], [1.0, 3.0, 5.0]


def retrace(trace, terminated=None, truncated=None):
    ends = flags(terminated, 3), flags(truncated, 3)
    return sequence.retrace_target(*map(column, (*RETRACE, trace)), *ends, GAMMA)[:, 0].numpy()


def test_retrace_by_hand():
    # delta[2] = 1; delta[1] = 1 + 1 / 2 * 1 * 1 = 1.5; delta[0] = 1 + 1 / 2 * 1 / 2 * 1.5 = 1.375
    np.testing.assert_allclose(retrace([7.0, 0.5, 1.0]), [2.375, 4.5, 6.0])


def test_retrace_without_traces_is_the_one_step_target():
    np.testing.assert_allclose(retrace([7.0, 0.0, 0.0]), [2.0, 4.0, 6.0])


def test_retrace_at_a_terminal_state():
    # error[1] = 2 - 3 = -1; delta[0] = 1 + 1 / 4 * -1 = 0.75
    np.testing.assert_allclose(retrace([7.0, 0.5, 1.0], terminated=1), [1.75, 2.0, 6.0])


def test_retrace_at_a_truncation_bootstraps_and_cuts_the_trace():
    # delta[1] = error[1] = 1; delta[0] = 1 + 1 / 4 * 1 = 1.25
    np.testing.assert_allclose(retrace([7.0, 0.5, 1.0], truncated=1), [2.25, 4.0, 6.0])


def test_retrace_on_policy_with_full_traces_is_the_bootstrapped_return():
    reward, value, terminated, truncated = map(tf.constant, random_sequences(1)[1:])
    ones, ends = tf.ones_like(reward), (terminated, truncated)
    found = sequence.retrace_target(reward, value, value[:-1], ones, *ends, 0.9)
    expected = returns.discounted_return(reward, value, *ends, 0.9)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def retrace_by_definition(reward, q_values, action, policy, chance, terminated, truncated, gamma, decay):
    """Equation 4 as it stands, with c[s] = lambda min(1, pi / mu), the sum cut at the episode's end."""
    steps, batch = reward.shape
    result = np.zeros((steps, batch))
    for b in range(batch):
        for t in range(steps):
            total, weight = q_values[t, b, action[t, b]], 1.0
            for s in range(t, steps):
                if s > t:
                    weight *= gamma * decay * min(1.0, policy[s, b, action[s, b]] / chance[s, b])
                following = 0.0 if terminated[s, b] else policy[s + 1, b] @ q_values[s + 1, b]
                total += weight * (reward[s, b] + gamma * following - q_values[s, b, action[s, b]])
                if terminated[s, b] or truncated[s, b]:
                    break
            result[t, b] = total
    return result


@pytest.mark.parametrize("jit_compile", [False, True])
def test_retrace_equals_its_definition_on_random_episodes(jit_compile):
    generator, reward, _, terminated, truncated = random_sequences(2)
    steps, batch = reward.shape
    q_values = generator.normal(size=(steps + 1, batch, 3))
    policy = generator.dirichlet(np.ones(3), (steps + 1, batch))
    action, chance = generator.integers(0, 3, (steps, batch)), generator.uniform(0.1, 1.0, (steps, batch))
    expected = retrace_by_definition(
        reward, q_values, action, policy, chance, terminated, truncated, 0.95, 0.8
    )
    rows, columns = np.indices((steps, batch))
    trace = 0.8 * np.minimum(1.0, policy[rows, columns, action] / chance)
    arrays = reward, (policy * q_values).sum(-1), q_values[rows, columns, action], trace
    function = tf.function(sequence.retrace_target, jit_compile=jit_compile, autograph=False)
    found = function(*[tf.constant(x, tf.float32) for x in arrays], terminated, truncated, 0.95)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_priorities_mix_the_largest_and_the_mean_error():
    error = tf.constant([[1.0, 1.0, 5.0], [-3.0, -3.0, 5.0], [2.0, 2.0, 5.0]])  # [T, N]
    mask = tf.constant([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    # 0.9 * 3 + 0.1 * 2      0.9 * 2 + 0.1 * 1.5      nothing counts
    np.testing.assert_allclose(sequence.sequence_priority(error, mask, 0.9), [2.9, 1.95, 0.0], rtol=1e-6)
    np.testing.assert_allclose(sequence.sequence_priority(error, mask, 0.0), [2.0, 1.5, 0.0], rtol=1e-6)
    np.testing.assert_allclose(sequence.sequence_priority(error, mask, 1.0), [3.0, 2.0, 0.0], rtol=1e-6)


def test_an_end_that_is_both_terminal_and_truncated_does_not_bootstrap():
    # A terminal state in the very step of the time limit: as at a terminal state, 1 + 2 / 2 = 2.
    np.testing.assert_allclose(n_step(3, terminated=1, truncated=1)[:2], [2.0, 2.0])
    np.testing.assert_allclose(retrace([7.0, 0.5, 1.0], terminated=1, truncated=1), [1.75, 2.0, 6.0])
    np.testing.assert_allclose(n_step(3, terminated=1, truncated=1), n_step(3, terminated=1))


def test_what_fills_a_sequence_and_who_is_gone_is_not_observed():
    mask, zeros = [1.0, 1.0, 0.0, 0.0, 1.0], [0.0] * 5

    def rows(mask, terminated):
        ends, never = column([x > 0.0 for x in terminated], tf.bool), flags(count=5)
        return Trajectory((), (), column(zeros), ends, never, column(mask), {})

    # One agent: an episode of two steps, an autoreset, one that is cut at once, an autoreset.
    whole = rows([1.0, 1.0, 0.0, 1.0, 0.0], zeros)
    assert sequence.observed(whole)[:, 0].numpy().tolist() == [1.0] * 6
    assert sequence.goes_on(whole).numpy().tolist() == [1.0]
    # Stored data: two steps, and three that fill up.
    filled = rows([1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0, 1.0])
    assert sequence.observed(filled)[:, 0].numpy().tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert sequence.goes_on(filled).numpy().tolist() == [0.0]
    # One of two agents: gone after two steps, until the other one is and the environment resets.
    gone = rows(mask, [0.0, 1.0, 0.0, 0.0, 0.0])
    assert sequence.observed(gone, 2)[:, 0].numpy().tolist() == [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    assert sequence.goes_on(gone, 2).numpy().tolist() == [1.0]
    left = rows([1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0])
    assert sequence.observed(left, 2)[:, 0].numpy().tolist() == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert sequence.goes_on(left, 2).numpy().tolist() == [0.0]
