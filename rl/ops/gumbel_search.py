"""Tree search that improves a policy even with few simulations: Gumbel noise, sequential halving.

Danihelka et al. 2022, "Policy improvement by planning with Gumbel",
https://openreview.net/forum?id=bERaNdoegnO (full Gumbel MuZero). At the root, the moves with the greatest
noisy log prior (a sample without replacement) share the simulations: first all of them, then the better half,
and so on (figure 1, algorithm 2). Below the root, moves are chosen so that the visits approach the improved
policy (section 5),

    softmax(logits + sigma(completed Q)),    sigma(q) = (visit_offset + max visits) value_scale q,

The network learns the root's improved policy. A move that was never tried gets the mixed value of its node
(appendix D) in place of a Q; completed values are rescaled to [0, 1] in every node, as mctx does.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

from rl.ops.search import NEVER, Found, Node, Recurrent, node_at, rescaled, search
from rl.types import Nest, Tensor


def gumbel(
    recurrent: Recurrent,
    root: Nest,
    prior: Tensor,
    value: Tensor,
    simulations: int,
    noise: Tensor,
    seed: Tensor,
    considered: int = 16,
    value_scale: float = 0.1,
    least_range: float = 1e-8,
    visit_offset: float = 50.0,
) -> Found:
    """Searches the positions [B, ...] and returns the results: `weights` is the improved policy, `value` the
    mean of completed values under it, and `acting` is 1 for the one move that remains.

    Args:
        recurrent: see `rl.ops.search.Recurrent`.
        root: the positions.
        prior: [B, A] of their moves, 0: illegal.
        value: [B] of the positions.
        simulations: how many.
        noise: standard Gumbel [B, A]; zeros: the best moves, without exploration.
        seed: of what `recurrent` draws.
        considered: the largest number of moves that share the simulations.
        value_scale, visit_offset: of sigma, c_scale and c_visit in the paper.
        least_range: see `rl.ops.search.rescaled`.
    """
    most = min(considered, int(prior.shape[1]))
    table = tf.constant(np.concatenate([considered_visits(m, simulations) for m in range(most + 1)]))
    legal = tf.reduce_sum(tf.cast(prior > 0.0, tf.int32), -1)  # [B]
    first = tf.minimum(legal, most) * simulations  # [B] where the rows of the table begin
    perturbed = noise + _logits(prior)

    def improved(node: Node) -> tuple[Tensor, Tensor]:
        """Completed values, and sigma of them, both [B, A]."""
        q = completed(node)
        scale = (visit_offset + tf.reduce_max(node.visits, -1, keepdims=True)) * value_scale
        return q, scale * rescaled(q, least_range)

    def root_score(node: Node) -> Tensor:
        done = tf.cast(tf.reduce_sum(node.visits, -1), tf.int32)
        turn = tf.gather(table, first + tf.minimum(done, simulations - 1))  # [B] visits of the next move
        return tf.where(tf.equal(node.visits, turn[:, None]), perturbed + improved(node)[1], NEVER)

    def score(node: Node) -> Tensor:
        policy = tf.nn.softmax(_logits(node.prior) + improved(node)[1])
        return policy - node.visits / (1.0 + tf.reduce_sum(node.visits, -1, keepdims=True))

    tree = search(recurrent, root, prior, simulations, score, seed, value, root_score)
    node = node_at(tree, tf.zeros_like(legal))
    q, sigma = improved(node)
    weights = tf.nn.softmax(_logits(prior) + sigma)
    left = tf.equal(node.visits, tf.reduce_max(node.visits, -1, keepdims=True)) & (prior > 0.0)
    chosen = tf.argmax(tf.where(left, perturbed + sigma, NEVER), -1, tf.int32)
    acting = tf.one_hot(chosen, int(prior.shape[1]))
    return Found(node.visits, weights, tf.reduce_sum(weights * q, -1), acting)


def completed(node: Node) -> Tensor:
    """Returns the values of all moves [B, A]. Moves that were never tried get a mix of the node's initial
    value and the mean of its tried moves' values, weighted by their priors (appendix D)."""
    tried = node.visits > 0.0
    share = tf.where(tried, node.prior, 0.0)
    mean = tf.reduce_sum(share * node.q, -1) / tf.maximum(tf.reduce_sum(share, -1), 1e-30)
    visits = tf.reduce_sum(node.visits, -1)
    mixed = (node.value + visits * mean) / (1.0 + visits)
    return tf.where(tried, node.q, mixed[:, None])


def considered_visits(moves: int, simulations: int) -> np.ndarray:
    """Returns how many visits the move has that each simulation tries, float32 [simulations], if `moves`
    moves share the simulations by sequential halving (Karnin et al. 2013,
    https://proceedings.mlr.press/v28/karnin13.html): each of log2(moves) phases gets an equal part of
    them."""
    if moves <= 1:
        return np.arange(simulations, dtype=np.float32)
    phases, left, tried = math.ceil(math.log2(moves)), moves, 0
    found: list[int] = []
    while len(found) < simulations:
        rounds = max(1, simulations // (phases * left))
        for visits in range(tried, tried + rounds):
            found += [visits] * left
        tried, left = tried + rounds, max(2, left // 2)
    return np.array(found[:simulations], np.float32)


def _logits(prior: Tensor) -> Tensor:
    return tf.where(prior > 0.0, tf.math.log(tf.maximum(prior, 1e-30)), NEVER)
