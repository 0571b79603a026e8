"""Rows that a loop writes come back as they were, whatever shares an array."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops.rows import Rows

T, B = 5, 3


def written(t):
    """Row number t, of leaves of every kind that a rollout has."""
    number = tf.cast(t, tf.float32)
    return {
        "picture": tf.cast(tf.fill([B, 2, 2], t), tf.uint8),
        "vector": tf.reshape(tf.range(B * 2, dtype=tf.float32), [B, 2]) + 10.0 * number,
        "action": tf.range(B) + 100 * t,
        "reward": tf.constant([0.5, -np.inf, 1e-30]) * (number + 1.0),
        "over": tf.range(B) < t,
        "of_teams": (tf.fill([1], number), tf.fill([1], -number)),
        "nothing": {},
        "alone": tf.fill([2], number),
    }


def specs():
    return tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), written(tf.constant(0)))


@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
def test_they_come_back_as_they_were(jit_compile):
    rows = Rows(specs(), T)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def played():
        def body(t, arrays):
            return t + 1, rows.write(arrays, t, written(t))

        _, arrays = tf.while_loop(
            lambda t, _: t < T, body, (tf.constant(0), rows.arrays()), maximum_iterations=T
        )
        return rows.stack(arrays)

    found, expected = played(), [written(tf.constant(t)) for t in range(T)]
    tf.nest.assert_same_structure(found, expected[0])
    whole = tf.nest.map_structure(lambda *each: tf.stack(each), *expected)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(whole), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_numbers_and_flags_of_one_shape_share_an_array():
    shapes = [tuple(each.element_shape) for each in Rows(specs(), T).arrays()]
    # in the order of their names: action, alone, of_teams, over with reward, picture, vector
    assert shapes == [(B,), (2,), (2, 1), (2, B), (B, 2, 2), (B, 2)]
