"""The product and the bias of a dense layer, by whichever way there are rows for."""

from __future__ import annotations

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from rl.models.layers import dense
from rl.models.population import with_weights
from rl.ops.affine import ROWS, affine, bias_apart


def test_worked_by_hand():
    kernel, bias = tf.constant([[1.0, 2.0] * 4, [3.0, 4.0] * 4]), tf.constant([10.0, 20.0] * 4)
    found = affine(tf.tile([[1.0, -1.0]], [ROWS, 1]), kernel, bias)
    np.testing.assert_array_equal(found, [[8.0, 18.0] * 4] * ROWS)


@pytest.mark.parametrize("rows, width", [(ROWS - 1, 4), (ROWS, 4), (ROWS, 5), (2 * ROWS, 1)])
def test_product_and_gradients_are_those_of_a_product_and_a_sum(rows, width):
    rng = np.random.default_rng(rows)
    x, kernel, bias, weight = (
        rng.normal(size=shape) for shape in ((rows, width), (width, 16), (16,), (rows, 16))
    )
    inputs = [tf.constant(each, tf.float32) for each in (x, kernel, bias)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        found = affine(*inputs)
        loss = tf.reduce_sum(found * tf.constant(weight, tf.float32))
    np.testing.assert_allclose(found, x @ kernel + bias, rtol=1e-5, atol=1e-5)
    expected = weight @ kernel.T, x.T @ weight, weight.sum(0)
    for one, two in zip(tape.gradient(loss, inputs), expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


def test_rows_may_be_unknown_or_in_groups_and_numbers_narrow():
    kernel, bias = tf.ones([2, 8]), tf.ones([8])
    assert affine(tf.ones([2, ROWS, 2]), kernel, bias).numpy().tolist() == [[[3.0] * 8] * ROWS] * 2
    unknown = tf.function(affine, [tf.TensorSpec([None, 2]), *map(tf.TensorSpec.from_tensor, (kernel, bias))])
    assert unknown(tf.ones([3, 2]), kernel, bias).numpy().tolist() == [[3.0] * 8] * 3
    found = affine(*(tf.cast(each, tf.bfloat16) for each in (tf.ones([ROWS, 2]), kernel, bias)))
    assert found.dtype == tf.bfloat16 and found.numpy().astype(float).tolist() == [[3.0] * 8] * ROWS


def test_the_bias_is_no_row_of_the_kernel_where_that_stands_for_several():
    def operations(around):
        with around, tf.Graph().as_default() as graph:
            affine(tf.ones([ROWS, 2]), tf.ones([2, 8]), tf.ones([8]))
        return {each.type for each in graph.get_operations()}

    assert "ConcatV2" in operations(contextlib.nullcontext())
    assert "ConcatV2" not in operations(bias_apart())


def test_copies_of_a_network_have_plain_products():
    """Concatenations, and those of gradients, cost XLA on processors several times the products."""
    network = keras.Sequential([dense(2, 16, "ones", "first")])
    weights = [tf.ones([3, 2, 16]), tf.ones([3, 16])]

    @tf.function(autograph=False)
    def copies(x):
        return with_weights(network, weights, x)

    traced = copies.get_concrete_function(tf.TensorSpec([3, ROWS, 2]))
    widths = [each.outputs[0].shape[-1] for each in traced.graph.get_operations() if "Concat" in each.type]
    assert 3 not in widths  # of an x with a 1 beside it
    np.testing.assert_array_equal(copies(tf.ones([3, ROWS, 2])), np.full((3, ROWS, 16), 3.0))
