"""The natural gradient's arithmetic: systems known by their products alone, and steps of a length."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from rl.types import Tensor


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Tensor, steps: int, tolerance: float = 1e-10
) -> Tensor:
    """Returns x [n] with product(x) = target, as near as `steps` steps of conjugate gradients come.

    product: multiplies a vector [n] by a matrix that is symmetric and positive definite. It ends early when
    the squared length of what is missing falls below `tolerance` times that of `target` [n].
    Hestenes & Stiefel 1952; Nocedal & Wright 2006, "Numerical Optimization", algorithm 5.2.
    """
    enough = tolerance * tf.reduce_sum(tf.square(target))

    def body(
        i: Tensor, x: Tensor, missing: Tensor, direction: Tensor, square: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        moved = product(direction)
        length = square / tf.reduce_sum(direction * moved)
        x, missing = x + length * direction, missing - length * moved
        after = tf.reduce_sum(tf.square(missing))
        return i + 1, x, missing, missing + after / square * direction, after

    first = (tf.constant(0), tf.zeros_like(target), target, target, tf.reduce_sum(tf.square(target)))
    return tf.while_loop(
        lambda i, *rest: tf.logical_and(i < steps, rest[-1] > enough), body, first, maximum_iterations=steps
    )[1]


def step_to_limit(direction: Tensor, curvature: Tensor, limit: Tensor | float) -> Tensor:
    """Returns the direction [n], as long as half its curvature along it is `limit`: 0 where it has none.

    curvature: of the unscaled direction, x^T F x. Schulman et al. 2015, appendix C: beta = sqrt(2 delta /
    (x^T F x)).
    """
    known = tf.where(curvature > 0.0, curvature, 1.0)
    return tf.where(curvature > 0.0, tf.sqrt(2.0 * limit / known), 0.0) * direction
