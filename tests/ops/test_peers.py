"""The formulas beside those of rlax and distrax on random input; needs the extra `peers` (CONTRIBUTING.md).

Literal numbers from the papers are in the other files; what is here guards against a shared misreading.
rlax knows no truncation and takes one sequence at a time, without a batch axis.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import distributional, returns, sequence, vtrace
from rl.ops.distributions import TanhGaussian

rlax = pytest.importorskip("rlax", reason="the extra `peers` is not installed: ./setup.sh --extra peers")

LENGTH, COUNT, ACTIONS, GAMMA = 12, 5, 4, 0.9
SEEDS = pytest.mark.parametrize("seed", range(3))


def near(found, expected):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=2e-5, atol=2e-5)


def each(function):
    """Columns [T] of a batch, computed one by one, as [T, B]."""
    return np.stack([np.asarray(function(b)) for b in range(COUNT)], 1)


class Sequences:
    """Random rewards, values, action values and ends [T, B]."""

    def __init__(self, seed):
        generator = np.random.default_rng(seed)
        normal = generator.normal
        self.reward = normal(size=(LENGTH, COUNT)).astype(np.float32)
        self.value = normal(size=(LENGTH + 1, COUNT)).astype(np.float32)
        self.q_values = normal(size=(LENGTH + 1, COUNT, ACTIONS)).astype(np.float32)
        self.action = generator.integers(0, ACTIONS, (LENGTH + 1, COUNT))
        self.log_ratio = normal(scale=0.7, size=(LENGTH, COUNT)).astype(np.float32)
        self.terminated = generator.random((LENGTH, COUNT)) < 0.2
        self.truncated = np.zeros((LENGTH, COUNT), bool)
        self.discount = (GAMMA * (1.0 - self.terminated)).astype(np.float32)
        policy = np.exp(normal(size=(LENGTH + 1, COUNT, ACTIONS)))
        self.policy = (policy / policy.sum(-1, keepdims=True)).astype(np.float32)
        self.chance = generator.uniform(0.1, 1.0, (LENGTH + 1, COUNT)).astype(np.float32)

    def chosen(self, table):
        """The entries [T+1, B] of a table [T+1, B, A] for the actions taken."""
        return np.take_along_axis(table, self.action[..., None], -1)[..., 0]


@SEEDS
def test_generalized_advantage(seed):
    x = Sequences(seed)
    found = returns.generalized_advantage(x.reward, x.value, x.terminated, x.truncated, GAMMA, 0.8)
    peer = rlax.truncated_generalized_advantage_estimation
    near(found, each(lambda b: peer(x.reward[:, b], x.discount[:, b], 0.8, x.value[:, b])))


@SEEDS
@pytest.mark.parametrize("trace_lambda", [1.0, 0.7])
def test_vtrace(seed, trace_lambda):
    x = Sequences(seed)
    found = vtrace.vtrace(
        x.log_ratio, x.reward, x.value, x.terminated, x.truncated, GAMMA, trace_lambda, 1.1, 1.0, 1.3
    )

    def peer(b):
        ratio, lead = np.exp(x.log_ratio[:, b]), np.full(LENGTH, trace_lambda, np.float32)
        arguments = (x.value[:-1, b], x.value[1:, b], x.reward[:, b], x.discount[:, b], ratio, lead)
        return rlax.vtrace_td_error_and_advantage(*arguments, 1.1, 1.3)

    near(found.target - x.value[:-1], each(lambda b: peer(b).errors))
    near(found.advantage, each(lambda b: peer(b).pg_advantage))


@SEEDS
def test_retrace(seed):
    x = Sequences(seed)
    value = (x.policy * x.q_values).sum(-1)  # [T+1, B]
    chosen = x.chosen(x.q_values)
    trace = 0.9 * np.minimum(1.0, x.chosen(x.policy) / x.chance)
    target = sequence.retrace_target(
        x.reward, value, chosen[:-1], trace[:-1], x.terminated, x.truncated, GAMMA
    )

    def peer(b):
        q, pi, rest = x.q_values[:, b], x.policy[:, b], (x.reward[:, b], x.discount[:, b])
        traced = np.minimum(1.0, x.chosen(x.policy)[1:-1, b] / x.chance[1:-1, b]) * np.float32(0.9)
        values = (pi[1:] * q[1:]).sum(-1)
        return rlax.general_off_policy_returns_from_q_and_v(chosen[1:-1, b], values, *rest, traced)

    near(target, each(peer))


@SEEDS
@pytest.mark.parametrize("n_step", [1, 3, LENGTH])
def test_n_step_targets(seed, n_step):
    x = Sequences(seed)
    found = sequence.n_step_target(x.reward, x.value, x.terminated, x.truncated, GAMMA, n_step)
    peer = rlax.n_step_bootstrapped_returns
    near(found, each(lambda b: peer(x.reward[:, b], x.discount[:, b], x.value[1:, b], n_step)))


@pytest.mark.parametrize("epsilon", [1e-3, 1e-2])
def test_value_rescaling(epsilon):
    x = np.random.default_rng(0).normal(scale=50.0, size=200).astype(np.float32)
    near(sequence.rescale_value(x, epsilon), rlax.signed_hyperbolic(x, epsilon))
    found, expected = sequence.unscale_value(x / 10, epsilon), rlax.signed_parabolic(x / 10, epsilon)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)  # rlax's form cancels
    near(sequence.unscale_value(tf.constant(sequence.rescale_value(x, epsilon)), epsilon), x)


@SEEDS
def test_categorical_projection(seed):
    generator = np.random.default_rng(seed)
    atoms = distributional.support(-3.0, 5.0, 9)
    probabilities = generator.dirichlet(np.ones(9), COUNT).astype(np.float32)
    reward, discount = generator.normal(scale=3.0, size=(2, COUNT, 1)).astype(np.float32)
    moved = reward + np.abs(discount) * atoms  # [N, K]; some beyond the ends
    found = distributional.categorical_projection(probabilities, tf.constant(moved), atoms)
    expected = [rlax.categorical_l2_project(moved[i], probabilities[i], atoms) for i in range(COUNT)]
    near(found, np.stack(expected))


@SEEDS
@pytest.mark.parametrize("delta", [1.0, 0.5])
def test_quantile_huber(seed, delta):
    generator = np.random.default_rng(seed)
    quantiles, target = (generator.normal(scale=2.0, size=(COUNT, n)).astype(np.float32) for n in (7, 11))
    fraction = generator.uniform(0.05, 0.95, (COUNT, 7)).astype(np.float32)
    found = distributional.quantile_huber(quantiles, tf.constant(fraction), tf.constant(target), delta)
    peer = rlax.quantile_regression_loss
    near(found, [peer(quantiles[i], fraction[i], target[i], delta) for i in range(COUNT)])


@SEEDS
def test_tanh_gaussian_log_prob(seed):
    distrax = pytest.importorskip("distrax")
    generator = np.random.default_rng(seed)
    mean, log_std = generator.normal(size=(2, COUNT, 3)).astype(np.float32)
    low, high = np.array([-2.0, -1.0, 0.0], np.float32), np.array([2.0, 1.0, 5.0], np.float32)
    mine = TanhGaussian(tf.constant(mean), tf.constant(log_std), low, high)
    action = mine.sample(tf.constant([seed, 1]))
    # Three bijectors: the normal, squashed, then stretched to the bounds.
    stretch = distrax.ScalarAffine(shift=(low + high) / 2, scale=(high - low) / 2)
    chain = distrax.Chain([stretch, distrax.Tanh()])
    normal = distrax.Normal(mean, np.exp(log_std))
    peer = distrax.Transformed(distrax.Independent(normal, 1), distrax.Block(chain, 1))
    np.testing.assert_allclose(mine.log_prob(action), peer.log_prob(action.numpy()), rtol=1e-3, atol=1e-3)
