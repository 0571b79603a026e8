"""Parts of a graph that XLA compiles by themselves."""

from __future__ import annotations

import pytest
import tensorflow as tf

from rl.parallel.fused import fused, fusing


def polynomial(x):
    return fused(lambda x: 3.0 * x * x + 1.0, x)


def parts_of_xla(function, x):
    graph = tf.function(function, autograph=False).get_concrete_function(x).graph
    return [op for op in graph.get_operations() if "Call" in op.type and op.get_attr("_XlaMustCompile")]


def test_what_is_traced_for_it_has_the_part_compiled_and_computes_the_same():
    x = tf.constant([0.0, 1.0, 2.0])
    with fusing(True):
        assert len(parts_of_xla(polynomial, x)) == 1
        assert tf.function(polynomial)(x).numpy().tolist() == [1.0, 4.0, 13.0]


def test_elsewhere_the_function_is_called_as_it_is():
    x = tf.constant([2.0])
    assert parts_of_xla(polynomial, x) == []
    with fusing(True), fusing(False):
        assert parts_of_xla(polynomial, x) == []
    with fusing(True):
        assert polynomial(x).numpy().tolist() == [13.0], "eagerly it would be compiled at every call"
    assert parts_of_xla(polynomial, x) == []


def test_it_ends_with_the_block_whatever_happens_there():
    with pytest.raises(ZeroDivisionError), fusing(True):
        raise ZeroDivisionError
    assert parts_of_xla(polynomial, tf.constant([2.0])) == []


def test_variables_are_assigned_and_gradients_pass_through_it():
    total, x = tf.Variable(1.0), tf.Variable([2.0])

    def add(y):
        total.assign_add(tf.reduce_sum(y))
        return 3.0 * y

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape:
            y = fused(add, x.value())
        return tape.gradient(y, x)

    with fusing(True):
        gradient = step()
    assert gradient.numpy().tolist() == [3.0] and total.numpy() == 3.0
