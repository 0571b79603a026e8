"""Linear bandits in closed form: the posterior of each arm's parameters, and how wide it is."""

from __future__ import annotations

import tensorflow as tf

from rl.types import Tensor

RIDGE = 1e-6  # of a diagonal of 1: float32 rounds sums of products by about as much


def observed(x: Tensor, arm: Tensor, reward: Tensor, mask: Tensor, arms: int) -> tuple[Tensor, Tensor]:
    """Returns what N observations add to each arm's (A, b): sums of x x^T [K, n, n] and of r x [K, n].

    x [N, n]; arm int32 [N]; reward, mask [N]. Li et al. 2010, algorithm 1, lines 12 and 13.
    """
    chosen = tf.one_hot(arm, arms) * mask[:, None]  # [N, K]
    return tf.einsum("nk,ni,nj->kij", chosen, x, x), tf.einsum("nk,n,ni->ki", chosen, reward, x)


def posterior(precision: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the mean A^-1 b [K, n] and the root W [K, n, n] of A^-1 = W^T W, of A [K, n, n], b [K, n].

    A is factorised after scaling its diagonal to 1, so that features may be of any size. If features are
    linearly dependent, `RIDGE` bounds the precision of the combinations that float32 cannot distinguish.
    """
    n = b.shape[-1]
    identity = tf.eye(n, batch_shape=[b.shape[0]])
    unit = tf.math.rsqrt(tf.linalg.diag_part(precision))  # [K, n]
    scaled = precision * unit[:, :, None] * unit[:, None, :] + n * RIDGE * identity
    root = tf.linalg.triangular_solve(tf.linalg.cholesky(scaled), identity) * unit[:, None, :]
    return tf.linalg.matvec(root, tf.linalg.matvec(root, b), transpose_a=True), root


def scores(x: Tensor, mean: Tensor, root: Tensor) -> tuple[Tensor, Tensor]:
    """Returns each arm's expected reward x^T A^-1 b and its deviation sqrt(x^T A^-1 x), [N, K] each."""
    spread = tf.einsum("kij,nj->nki", root, x)
    return tf.linalg.matmul(x, mean, transpose_b=True), tf.linalg.norm(spread, axis=-1)
