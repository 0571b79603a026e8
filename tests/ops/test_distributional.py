"""Categorical and quantile distributions of returns, against numbers worked from the papers and rlax."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import distributional
from rl.ops.distributional import categorical_projection, quantile_huber

NO_PEER = "the extra `peers` is not installed: ./setup.sh --extra peers"
ATOMS = distributional.support(0.0, 2.0, 3)  # 0, 1, 2


def project(probabilities, target_atoms, atoms=ATOMS):
    """One distribution: a batch of 1."""
    batch = (np.asarray(each, np.float32)[None] for each in (probabilities, target_atoms))
    return categorical_projection(*batch, atoms)[0].numpy()


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def test_the_support_is_evenly_spaced_and_holds_both_ends():
    np.testing.assert_array_equal(distributional.support(-1.0, 1.0, 5), [-1.0, -0.5, 0.0, 0.5, 1.0])
    assert distributional.support(-10.0, 10.0, 51).dtype == np.float32


def test_select_takes_the_row_of_the_action():
    values = tf.reshape(tf.range(12.0), [2, 3, 2])
    np.testing.assert_array_equal(distributional.select(values, tf.constant([2, 0])), [[4, 5], [6, 7]])


def test_expectation_is_the_mean_over_the_atoms():
    logits = np.log([[[0.2, 0.3, 0.5], [0.25, 0.5, 0.25]]]).astype(np.float32) + 7.0
    np.testing.assert_allclose(distributional.expectation(logits, ATOMS), [[1.3, 1.0]], rtol=1e-5)


def test_projection_splits_each_probability_between_the_neighbours_of_its_atom():
    # r = 0.25, gamma = 0.5: atoms 0.25, 0.75, 1.25. Shares of 0.2: 0.15 + 0.05; 0.5: 0.125 + 0.375; 0.3 to
    # atoms 1 and 2: 0.225 + 0.075.
    found = project([0.2, 0.5, 0.3], 0.25 + 0.5 * ATOMS)
    np.testing.assert_allclose(found, [0.275, 0.65, 0.075], rtol=1e-6)


def test_projection_leaves_atoms_that_are_met_exactly():
    np.testing.assert_allclose(project([0.2, 0.5, 0.3], ATOMS), [0.2, 0.5, 0.3], rtol=1e-6)


def test_projection_gathers_what_is_out_of_range_at_the_ends():
    np.testing.assert_allclose(project([0.2, 0.5, 0.3], [-3.0, 9.0, 2.5]), [0.2, 0.0, 0.8], rtol=1e-6)


def test_projection_of_a_terminal_state_is_the_reward():
    np.testing.assert_allclose(project([0.2, 0.5, 0.3], 1.5 + 0.0 * ATOMS), [0.0, 0.5, 0.5], atol=1e-6)


def test_projection_scales_with_the_spacing_of_the_atoms():
    # atoms -10, 0, 10; everything at 4: distance 4 of 10 from 0.
    atoms = distributional.support(-10.0, 10.0, 3)
    np.testing.assert_allclose(project([0.2, 0.5, 0.3], [4.0] * 3, atoms), [0.0, 0.6, 0.4], atol=1e-6)


def algorithm_1(probabilities, reward, discount, low, high, count):
    """Bellemare et al. 2017, algorithm 1, line by line for one transition."""
    spacing = (high - low) / (count - 1)
    m = np.zeros(count)
    for j in range(count):
        moved = np.clip(reward + discount * (low + j * spacing), low, high)
        b = (moved - low) / spacing
        lower, upper = int(np.floor(b)), int(np.ceil(b))
        if lower == upper:  # the paper's lines lose the probability here
            m[lower] += probabilities[j]
            continue
        m[lower] += probabilities[j] * (upper - b)
        m[upper] += probabilities[j] * (b - lower)
    return m


def random_transitions(count=40, atoms=51):
    generator = np.random.default_rng(0)
    probabilities = softmax(generator.normal(size=(count, atoms)) * 2.0)
    reward = generator.normal(size=count) * 6.0  # some beyond the atoms
    discount = generator.choice([0.0, 0.9, 0.99**3], count)
    return probabilities.astype(np.float32), reward.astype(np.float32), discount.astype(np.float32)


def test_projection_equals_algorithm_1_on_random_input():
    probabilities, reward, discount = random_transitions()
    atoms = distributional.support(-10.0, 10.0, 51)
    found = categorical_projection(probabilities, reward[:, None] + discount[:, None] * atoms, atoms).numpy()
    transitions = zip(probabilities, reward, discount, strict=True)
    expected = [algorithm_1(*each, -10.0, 10.0, 51) for each in transitions]
    np.testing.assert_allclose(found, expected, atol=2e-6)
    np.testing.assert_allclose(found.sum(-1), 1.0, rtol=1e-5)


def test_projection_keeps_the_mean_of_what_is_within_range():
    probabilities, reward, _ = random_transitions()
    atoms = distributional.support(-10.0, 10.0, 51)
    moved = np.clip(reward, -1.0, 1.0)[:, None] + 0.9 * atoms
    found = categorical_projection(probabilities, moved, atoms)
    np.testing.assert_allclose((found * atoms).numpy().sum(-1), (probabilities * moved).sum(-1), atol=1e-4)


def test_projection_equals_rlax_on_random_input():
    rlax = pytest.importorskip("rlax", reason=NO_PEER)
    probabilities, reward, discount = random_transitions()
    atoms = distributional.support(-10.0, 10.0, 51)
    moved = reward[:, None] + discount[:, None] * atoms
    found = categorical_projection(probabilities, moved, atoms)
    rows = zip(moved, probabilities, strict=True)
    expected = [rlax.categorical_l2_project(z, p, atoms) for z, p in rows]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_cross_entropy_and_kl_divergence_at_literal_probabilities():
    target = tf.constant([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    logits = tf.math.log([[0.25, 0.5, 0.25], [0.2, 0.5, 0.3]])
    # 0.5 ln 4 + 0.5 ln 2 = 1.5 ln 2, less the target's entropy ln 2; ln 2, less 0.
    found = distributional.cross_entropy(target, logits)
    np.testing.assert_allclose(found, [1.5 * np.log(2), np.log(2)], rtol=1e-6)
    found = distributional.kl_divergence(target, logits)
    np.testing.assert_allclose(found, [0.5 * np.log(2), np.log(2)], rtol=1e-6)


def test_the_gradient_of_cross_entropy_is_finite_for_a_target_with_zeros_and_extreme_logits():
    logits = tf.constant([[200.0, -200.0, 0.0]])
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = distributional.cross_entropy(tf.constant([[0.0, 1.0, 0.0]]), logits)
    np.testing.assert_allclose(tape.gradient(loss, logits), [[1.0, -1.0, 0.0]], atol=1e-6)
    assert loss.numpy()[0] == 400.0


def test_quantile_midpoints():
    np.testing.assert_allclose(distributional.quantile_midpoints(4), [0.125, 0.375, 0.625, 0.875])


def test_quantile_huber_at_literal_values():
    # Quantiles 1 and 3 at fractions 1/4 and 3/4, targets 2 and 5; u = target - quantile.
    #   quantile 1: u = 1, 4, huber 0.5, 3.5, weight 1/4: mean 0.5
    #   quantile 3: u = -1, 2, huber 0.5, 1.5, weights |3/4 - 1| = 1/4 and 3/4: mean (0.125 + 1.125) / 2
    found = quantile_huber(tf.constant([[1.0, 3.0]]), np.float32([0.25, 0.75]), tf.constant([[2.0, 5.0]]))
    np.testing.assert_allclose(found, [0.5 + 0.625], rtol=1e-6)


def test_quantile_huber_with_another_delta():
    # u = 3 and -3 beyond delta 2: 2 (3 - 1) = 4, weights 0.9 and |0.9 - 1|.
    found = quantile_huber(tf.constant([[0.0], [0.0]]), np.float32([0.9]), tf.constant([[3.0], [-3.0]]), 2.0)
    np.testing.assert_allclose(found, [3.6, 0.4], rtol=1e-5)


def random_quantiles(seed=1, count=20):
    generator = np.random.default_rng(seed)
    quantiles, target = generator.normal(size=(count, 5)) * 2, generator.normal(size=(count, 7)) * 2
    fraction = generator.random((count, 5))
    return (each.astype(np.float32) for each in (quantiles, fraction, target))


@pytest.mark.parametrize("delta", [0.5, 1.0])
def test_quantile_huber_equals_its_sums_on_random_input(delta):
    quantiles, fraction, target = random_quantiles()
    expected = np.zeros(20)
    for n in range(20):
        for i in range(5):
            for j in range(7):
                u = target[n, j] - quantiles[n, i]
                huber = u**2 / 2 if abs(u) <= delta else delta * (abs(u) - delta / 2)
                expected[n] += abs(fraction[n, i] - (u < 0)) * huber / 7
    np.testing.assert_allclose(quantile_huber(quantiles, fraction, target, delta), expected, rtol=1e-5)


def test_quantile_huber_equals_rlax_on_random_input():
    rlax = pytest.importorskip("rlax", reason=NO_PEER)
    quantiles, fraction, target = random_quantiles()
    rows = zip(quantiles, fraction, target, strict=True)
    expected = [rlax.quantile_regression_loss(*each, huber_param=0.7) for each in rows]
    np.testing.assert_allclose(quantile_huber(quantiles, fraction, target, 0.7), expected, rtol=1e-5)


def test_quantile_huber_with_a_small_delta_is_least_at_the_quantiles_of_the_samples():
    samples = tf.constant([np.random.default_rng(2).normal(size=1001)], tf.float32)
    fraction = np.float32([0.1, 0.5, 0.8])
    best = np.quantile(samples.numpy(), fraction).astype(np.float32)

    def each(quantiles):
        pairs = zip(quantiles, fraction, strict=True)
        return [float(quantile_huber(q.reshape(1, 1), f.reshape(1), samples, 1e-3)[0]) for q, f in pairs]

    least = each(best)
    for shift in (-0.1, 0.1):
        assert all(there > here for there, here in zip(each(best + shift), least, strict=True))


def test_the_lowest_quantiles_of_all_critics_are_pooled_and_sorted():
    # Two critics of three quantiles; ties, quantiles that cross, and one critic that is above the other.
    quantiles = tf.constant([[[3.0, 1.0, 2.0], [5.0, 6.0, 7.0]], [[2.0, 9.0, -4.0], [1.0, 2.0, 3.0]]])
    expected = [[-4.0, 1.0, 2.0, 2.0], [1.0, 2.0, 3.0, 5.0]]
    np.testing.assert_array_equal(distributional.lowest(quantiles, 4), expected)
    whole = distributional.lowest(quantiles, 6)
    np.testing.assert_array_equal(whole, np.sort([[3, 1, 2, 2, 9, -4], [5, 6, 7, 1, 2, 3]]))


def test_a_quantile_that_is_not_a_number_is_not_lost():
    quantiles = tf.constant([[[0.0, np.nan, 2.0], [0.0, np.inf, 1.0]]])
    found = distributional.lowest(quantiles, 2).numpy()
    assert np.isnan(found[0]).any() and list(found[1]) == [0.0, 1.0]
