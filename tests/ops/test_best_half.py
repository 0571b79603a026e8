"""V-MPO's weights: by hand, and against the derivative of the paper's temperature loss."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops.best_half import best_half, improved


def constant(values):
    return tf.constant(values, tf.float32)


@pytest.mark.parametrize(
    ("advantage", "mask", "chosen"),
    [
        ([4.0, 1.0, 3.0, 2.0], [1, 1, 1, 1], [1, 0, 1, 0]),
        ([3.0, 1.0, 2.0], [1, 1, 1], [1, 0, 1]),  # the one in the middle too
        ([9.0, 1.0, 3.0, 2.0, 8.0], [0, 1, 1, 1, 1], [0, 0, 1, 0, 1]),  # the best does not count
        ([2.0, 2.0, 2.0, 1.0], [1, 1, 1, 1], [1, 1, 1, 0]),  # as good as the worst of them
        ([2.0, 1.0], [0, 0], [0, 0]),
        ([-5.0], [1], [1]),
    ],
)
def test_the_better_half_is_of_what_counts(advantage, mask, chosen):
    found = best_half(constant(advantage), constant(mask))
    np.testing.assert_array_equal(found, np.array(chosen, bool))


def test_weights_and_their_divergence_are_what_they_are_by_hand():
    # Of 3 and 4 at temperature 2: exp(0) and exp(0.5), 0.37754 and 0.62246; 0.37754 ln 0.75508 +
    # 0.62246 ln 1.24492 = -0.10606 + 0.13636. Four steps count.
    found = improved(constant([4.0, 1.0, 9.0, 3.0, 2.0]), constant([1, 1, 0, 1, 1]), constant(2.0))
    np.testing.assert_allclose(found.weight, [2.48984, 0.0, 0.0, 1.51016, 0.0], atol=2e-5)
    np.testing.assert_allclose(found.kl, 0.0303, atol=2e-5)


def test_large_advantages_leave_the_weights_finite_and_nothing_counted_none():
    found = improved(constant([1e8, 2e8, -1e8, 0.0]), constant([1, 1, 1, 1]), constant(1e-6))
    np.testing.assert_allclose(found.weight, [0.0, 4.0, 0.0, 0.0])
    np.testing.assert_allclose(found.kl, np.log(2.0), rtol=1e-6)
    nothing = improved(constant([1.0, 2.0]), constant([0, 0]), constant(1.0))
    np.testing.assert_array_equal(nothing.weight, [0.0, 0.0])
    assert float(nothing.kl) == 0.0


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_the_divergence_is_what_the_temperatures_loss_falls_by(temperature):
    # Equation 4: eta epsilon + eta log(mean over the better half of exp(A / eta)).
    advantage = np.random.default_rng(0).normal(size=20)
    better, epsilon = np.sort(advantage)[10:], 0.1

    def loss(eta):
        return eta * epsilon + eta * np.log(np.mean(np.exp(better / eta)))

    slope = (loss(temperature + 1e-5) - loss(temperature - 1e-5)) / 2e-5
    found = improved(constant(advantage), tf.ones(20), constant(temperature))
    np.testing.assert_allclose(epsilon - float(found.kl), slope, atol=1e-4)


def test_no_gradient_passes_through_the_weights():
    advantage, temperature = constant([4.0, 1.0, 3.0, 2.0]), constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch([advantage, temperature])
        found = improved(advantage, tf.ones(4), temperature)
        total = tf.reduce_sum(found.weight * advantage[0]) + found.kl
    by_advantage, by_temperature = tape.gradient(total, [advantage, temperature])
    np.testing.assert_allclose(by_advantage, [4.0, 0.0, 0.0, 0.0], rtol=1e-6)  # of what is beside them
    assert by_temperature is None
