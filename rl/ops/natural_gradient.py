"""The natural gradient's arithmetic: conjugate gradients from matrix products, and the step's length."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from rl.types import Tensor


def conjugate_gradient(
    product: Callable[[Tensor], Tensor], target: Tensor, steps: int, tolerance: float = 1e-10
) -> Tensor:
    """Solves product(x) = target for x [n] approximately, by at most `steps` steps of conjugate gradients.

    product: multiplies a vector [n] by a symmetric positive definite matrix. The loop ends early when the
        squared norm of the residual falls below `tolerance` times that of `target` [n].

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
    """Returns the direction [n], scaled so that half its curvature is `limit`; 0 if its curvature is 0.

    curvature: of the unscaled direction, x^T F x. Schulman et al. 2015, appendix C: beta = sqrt(2 delta /
    (x^T F x)).
    """
    known = tf.where(curvature > 0.0, curvature, 1.0)
    return tf.where(curvature > 0.0, tf.sqrt(2.0 * limit / known), 0.0) * direction
