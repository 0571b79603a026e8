"""Tree search that improves a policy whatever the number of simulations: Gumbel noise, sequential halving.

Danihelka et al. 2022, "Policy improvement by planning with Gumbel",
https://openreview.net/forum?id=bERaNdoegnO (full Gumbel MuZero). At the root, the moves of the greatest prior
with Gumbel noise, a sample without replacement, share the simulations: all of them the first ones, the better
half the next ones, and so on (figure 1, algorithm 2). Below it, moves are followed so that visits come to the
improved policy (section 5),

    softmax(logits + sigma(completed Q)),    sigma(q) = (visit_offset + max visits) value_scale q,

of which the root's is what a network learns. A move that was never tried has the value of its node in place
of a Q, as appendix D mixes it; completed values are rescaled to [0, 1] in every node, as mctx does.
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
    """Returns what the search finds in the positions [B, ...]: `weights` is the improved policy, `value` the
    mean of completed values by it, and `acting` all on the one move that is left.

    Args:
        recurrent: see `rl.ops.search.Recurrent`.
        root: the positions.
        prior: [B, A] of their moves, 0: illegal.
        value: [B] of the positions.
        simulations: how many.
        noise: standard Gumbel [B, A]; zeros: the best moves, without exploration.
        seed: of what `recurrent` draws.
        considered: how many moves share the simulations at most.
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
        turn = tf.gather(table, first + tf.minimum(done, simulations - 1))  # [B] whose visits are so many
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
    """Returns the values of all moves [B, A], those of moves never tried mixed of what the node was worth
    when it was added and of its tried moves' values, weighted by their priors (appendix D)."""
    tried = node.visits > 0.0
    share = tf.where(tried, node.prior, 0.0)
    mean = tf.reduce_sum(share * node.q, -1) / tf.maximum(tf.reduce_sum(share, -1), 1e-30)
    visits = tf.reduce_sum(node.visits, -1)
    mixed = (node.value + visits * mean) / (1.0 + visits)
    return tf.where(tried, node.q, mixed[:, None])


def considered_visits(moves: int, simulations: int) -> np.ndarray:
    """Returns, float32 [simulations], how often the move that each simulation tries was tried before, where
    so many moves share them by sequential halving (Karnin et al. 2013,
    https://proceedings.mlr.press/v28/karnin13.html): each of log2(moves) phases has an equal part."""
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
