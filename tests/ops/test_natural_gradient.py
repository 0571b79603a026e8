"""Conjugate gradients against numpy's solver, and steps of a given length by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops.natural_gradient import conjugate_gradient, step_to_limit


def system(size, seed=0):
    """A symmetric, positive definite matrix and a vector."""
    generator = np.random.default_rng(seed)
    square = generator.normal(size=(size, size))
    matrix = square @ square.T / size + 0.1 * np.eye(size)
    return matrix.astype(np.float32), generator.normal(size=size).astype(np.float32)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_it_solves_as_numpy_does(jit_compile):
    matrix, target = system(12)
    solve = tf.function(
        lambda y: conjugate_gradient(lambda x: tf.linalg.matvec(matrix, x), y, 24), jit_compile=jit_compile
    )
    np.testing.assert_allclose(solve(tf.constant(target)), np.linalg.solve(matrix, target), rtol=2e-3)


def test_each_step_is_that_of_the_textbook():
    # Nocedal & Wright 2006, algorithm 5.2 by hand: A = [[4, 1], [1, 3]], b = [1, 2]. The first step is
    # 5 / 20 b, the second one ends at A^-1 b = [1, 7] / 11.
    product = lambda x: tf.linalg.matvec([[4.0, 1.0], [1.0, 3.0]], x)  # noqa: E731
    target = tf.constant([1.0, 2.0])
    np.testing.assert_allclose(conjugate_gradient(product, target, 1), [0.25, 0.5], rtol=1e-6)
    np.testing.assert_allclose(conjugate_gradient(product, target, 2), [1 / 11, 7 / 11], rtol=1e-5)


def test_it_ends_where_nothing_is_missing():
    calls = []

    def product(x):
        calls.append(1)
        return 2.0 * x

    np.testing.assert_allclose(conjugate_gradient(product, tf.constant([2.0, 6.0]), 9), [1.0, 3.0])
    assert len(calls) == 1
    np.testing.assert_array_equal(conjugate_gradient(product, tf.zeros([2]), 9), [0.0, 0.0])


def test_a_step_is_as_long_as_its_limit_says():
    # x^T F x = 8 and a limit of 0.01: sqrt(0.02 / 8) = 0.05.
    np.testing.assert_allclose(step_to_limit(tf.constant([2.0, -4.0]), tf.constant(8.0), 0.01), [0.1, -0.2])
    np.testing.assert_array_equal(step_to_limit(tf.zeros([2]), tf.constant(0.0), 0.01), [0.0, 0.0])
