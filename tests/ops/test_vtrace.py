"""V-trace against numbers worked by hand from the paper, its definition, and rlax where that is installed."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import returns
from rl.ops.vtrace import vtrace

# One environment, three steps, gamma = 1/2; ratios of the two policies 2, 1/2 and 4.
REWARD = [1.0, 2.0, 3.0]
VALUE = [1.0, 2.0, 3.0, 4.0]
RATIO = [2.0, 0.5, 4.0]


def column(values, dtype=tf.float32):
    return tf.constant(values, dtype)[:, None]  # [T, 1]


def flags(at=None):
    return column([t == at for t in range(3)], tf.bool)


def found(terminated=None, truncated=None, **options):
    log_ratio = tf.math.log(column(RATIO))
    ends = flags(terminated), flags(truncated)
    result = vtrace(log_ratio, column(REWARD), column(VALUE), *ends, 0.5, **options)
    return result.target[:, 0].numpy(), result.advantage[:, 0].numpy()


def test_targets_and_advantages_worked_by_hand():
    # Clipped at 1 the ratios are rho = c = 1, 1/2, 1.
    # delta V = rho (r + V' / 2 - V): 1 (1 + 1 - 1) = 1     (2 + 1.5 - 2) / 2 = 0.75     1 (3 + 2 - 3) = 2
    # v - V = delta V + c (v' - V') / 2, from the end: 2     0.75 + 0.25 * 2 = 1.25     1 + 0.5 * 1.25 = 1.625
    # advantage = rho (r + v' / 2 - V), v' after the last step being its value:
    #   1 + 3.25 / 2 - 1 = 1.625     (2 + 5 / 2 - 2) / 2 = 1.25     3 + 4 / 2 - 3 = 2
    target, advantage = found()
    np.testing.assert_allclose(target, [2.625, 3.25, 5.0])
    np.testing.assert_allclose(advantage, [1.625, 1.25, 2.0])


def test_the_three_clips_act_on_their_own_ratios():
    # rho-bar = 3 only: delta V = 2 * 1, 0.5 * 1.5, 3 * 2; v - V = 6, 0.75 + 0.25 * 6 = 2.25, 2 + 0.5 * 2.25.
    target, advantage = found(rho_clip=3.0)
    np.testing.assert_allclose(target, [4.125, 4.25, 9.0])
    # r + v' / 2 - V = 1 + 2.125 - 1, 2 + 4.5 - 2, 3 + 2 - 3, times the ratio clipped at 1.
    np.testing.assert_allclose(advantage, [2.125, 2.25, 2.0])
    # c-bar = 3 only: v - V = 2, 1.25, 1 + 2 * 0.5 * 1.25 = 2.25.
    np.testing.assert_allclose(found(trace_clip=3.0)[0], [3.25, 3.25, 5.0])
    # the policy gradient's ratio alone: 2 * 1.625, 0.5 * 2.5, 3 * 2.
    np.testing.assert_allclose(found(advantage_rho_clip=3.0)[1], [3.25, 1.25, 6.0])


def test_trace_lambda_weighs_trace_and_bootstrap():
    # v - V = 2, 0.75 + 0.5 * 0.25 * 2 = 1, 1 + 0.5 * 0.5 * 1 = 1.25.
    target, advantage = found(trace_lambda=0.5)
    np.testing.assert_allclose(target, [2.25, 3.0, 5.0])
    # rho (r + (V' + lambda (v' - V')) / 2 - V) = 1 + 1.25 - 1, (2 + 2 - 2) / 2, 2.
    np.testing.assert_allclose(advantage, [1.25, 1.0, 2.0])


def test_termination_cuts_bootstrap_and_trace():
    # delta V[1] = (2 - 2) / 2 = 0, so v[1] = V[1] = 2; v[0] - V[0] = 1; advantage 0: 1 + 2 / 2 - 1.
    target, advantage = found(terminated=1)
    np.testing.assert_allclose(target, [2.0, 2.0, 5.0])
    np.testing.assert_allclose(advantage, [1.0, 0.0, 2.0])


def test_truncation_bootstraps_from_the_value_as_it_is():
    # delta V[1] = 0.75 = v[1] - V[1]; v[0] - V[0] = 1 + 0.5 * 0.75; advantage 1: (2 + 3 / 2 - 2) / 2.
    target, advantage = found(truncated=1)
    np.testing.assert_allclose(target, [2.375, 2.75, 5.0])
    np.testing.assert_allclose(advantage, [1.375, 0.75, 2.0])


@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_the_autoreset_row_does_not_reach_the_episode_before_it(end):
    ends = {"terminated": flags(), "truncated": flags()} | {end: flags(1)}
    results = []
    for junk in (3.0, 999.0):  # row 2 follows the end in row 1
        arguments = tf.math.log(column([2.0, 0.5, junk])), column([1.0, 2.0, junk]), column(VALUE)
        results.append(vtrace(*arguments, *ends.values(), 0.5))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one[:2], other[:2])


def episodes(seed, steps=12, batch=5):
    generator = np.random.default_rng(seed)
    reward = generator.normal(size=(steps, batch)).astype(np.float32)
    value = generator.normal(size=(steps + 1, batch)).astype(np.float32)
    terminated, truncated = (generator.random((steps, batch)) < 0.12 for _ in range(2))
    log_ratio = generator.normal(size=(steps, batch)).astype(np.float32)
    return log_ratio, reward, value, terminated, truncated


def test_on_policy_it_is_the_n_step_return():
    _, *rest = map(tf.constant, episodes(0))
    result = vtrace(tf.zeros([12, 5]), *rest, 0.9)
    expected = returns.discounted_return(*rest, 0.9)
    np.testing.assert_allclose(result.target, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trace_lambda", [0.0, 0.8, 1.0])
def test_on_policy_its_advantage_is_generalized_advantage(trace_lambda):
    _, *rest = map(tf.constant, episodes(1))
    result = vtrace(tf.zeros([12, 5]), *rest, 0.9, trace_lambda)
    expected = returns.generalized_advantage(*rest, 0.9, trace_lambda)
    np.testing.assert_allclose(result.advantage, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result.target, expected + rest[1][:-1], rtol=1e-4, atol=1e-5)


def by_definition(log_ratio, reward, value, terminated, truncated, gamma, rho_clip, trace_clip):
    """Equation 1 as it stands: a sum over the later steps of products of traces, to the episode's end."""
    steps, batch = reward.shape
    rho, trace = (np.minimum(clip, np.exp(log_ratio)) for clip in (rho_clip, trace_clip))
    target = value[:-1].astype(np.float64)
    for b in range(batch):
        for s in range(steps):
            for t in range(s, steps):
                following = 0.0 if terminated[t, b] else value[t + 1, b]
                difference = rho[t, b] * (reward[t, b] + gamma * following - value[t, b])
                target[s, b] += gamma ** (t - s) * np.prod(trace[s:t, b]) * difference
                if terminated[t, b] or truncated[t, b]:
                    break
    return target


@pytest.mark.parametrize("jit_compile", [False, True])
def test_targets_equal_their_definition_on_random_episodes(jit_compile):
    data = episodes(2)
    function = tf.function(vtrace, jit_compile=jit_compile, autograph=False)
    result = function(*map(tf.constant, data), 0.95, 1.0, 1.5, 0.7)
    expected = by_definition(*data, 0.95, 1.5, 0.7)
    np.testing.assert_allclose(result.target, expected, rtol=1e-4, atol=1e-5)


def test_no_gradient_passes_through_it():
    log_ratio, reward, value, terminated, truncated = map(tf.constant, episodes(3))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([log_ratio, value])
        result = vtrace(log_ratio, reward, value, terminated, truncated, 0.9)
        total = tf.reduce_sum(result.target) + tf.reduce_sum(result.advantage)
    assert tape.gradient(total, [log_ratio, value]) == [None, None]


def test_it_equals_rlax_on_random_episodes():
    rlax = pytest.importorskip(
        "rlax", reason="rlax is not installed: a peer to compare with, not needed here"
    )
    log_ratio, reward, value, terminated, _ = episodes(4)
    never = np.zeros_like(terminated)  # rlax knows no truncation
    arguments = map(tf.constant, (log_ratio, reward, value, terminated, never))
    result = vtrace(*arguments, 0.9, 0.8, 1.3, 1.0, 0.9)
    for b in range(reward.shape[1]):
        discount = (0.9 * (1.0 - terminated[:, b])).astype(np.float32)
        columns = (value[:-1, b], value[1:, b], reward[:, b], discount, np.exp(log_ratio[:, b]))
        peer = rlax.vtrace_td_error_and_advantage(*columns, 0.8, 1.3, 0.9)
        np.testing.assert_allclose(result.target[:, b], value[:-1, b] + peer.errors, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(result.advantage[:, b], peer.pg_advantage, rtol=1e-4, atol=1e-5)
