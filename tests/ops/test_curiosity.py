"""Formulas of curiosity, worked by hand."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops import curiosity


def test_whitened_numbers_are_deviations_from_the_mean_within_five():
    x = tf.constant([[3.0, 0.0, 1.0], [-100.0, 1.0, 0.4]])
    # (3 - 1) / 2; (-100 - 1) / 2 is clipped; without variance 0 stays 0 and 1 is clipped; (1 - 0.4) / 0.3.
    found = curiosity.whiten(x, tf.constant([1.0, 0.0, 0.4]), tf.constant([4.0, 0.0, 0.09]))
    np.testing.assert_allclose(found, [[1.0, 0.0, 2.0], [-5.0, 5.0, 0.0]], rtol=1e-5, atol=1e-5)


def test_distillation_error_is_the_mean_square():
    found = curiosity.distillation_error(
        tf.constant([[1.0, 2.0], [0.5, 0.0]]), tf.constant([[0.0, 4.0], [0.5, 0.0]])
    )
    np.testing.assert_allclose(found, [2.5, 0.0])  # (1 + 4) / 2


def test_forward_error_is_half_the_squared_distance():
    found = curiosity.forward_error(tf.constant([[1.0, 2.0, 0.0]]), tf.constant([[0.0, 4.0, 1.0]]))
    np.testing.assert_allclose(found, [3.0])  # (1 + 4 + 1) / 2


def test_icm_weighs_the_forward_by_beta_and_the_inverse_by_the_rest():
    found = curiosity.icm_loss(tf.math.log([0.5, 1.0]), tf.constant([2.5, 1.0]), 0.2)
    np.testing.assert_allclose(found, [0.2 * 2.5 + 0.8 * 0.6931472, 0.2], rtol=1e-6)
