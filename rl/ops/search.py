"""Tree search in tensors: B trees side by side, each of a fixed number of nodes, in one compiled loop.

For games of two players by turns whose gain is the other's loss: a value is always that of who is on turn.
A node's arrays have a place for each of its A moves. Each simulation goes down from the root by the best
scores, adds the one node that it comes to, values it, and adds that value to what it went through.

What differs between searches are two functions: `evaluate` says of new positions how likely their moves are
and what they are worth, `score` which move a descent follows. `uct` is Kocsis & Szepesvari 2006, "Bandit
based Monte-Carlo planning", with a random playout as value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from rl.ops import random
from rl.types import Nest, Tensor

UNSEEN = 1e6  # score of a move that was never tried
NEVER = -1e9  # of an illegal one


class Game(Protocol):
    """The rules, for any number N of positions; `rl.envs.graph.multi_agent.TurnGame` has them."""

    def legal_moves(self, physics: Nest) -> Tensor:
        """Returns the moves of who is on turn, bool [N, A]."""

    def play(self, physics: Nest, move: Tensor) -> tuple[Nest, Tensor, Tensor]:
        """Returns positions [N, ...], what the mover is paid [N], whether the game is over [N]."""


class Tree(NamedTuple):
    """B trees of at most M nodes, of which node 0 is the root."""

    position: Nest  # [B, M, ...]
    prior: Tensor  # [B, M, A] how likely a move is, 0: it is illegal
    child: Tensor  # [B, M, A] int32, the node that a move leads to, -1: not yet
    visits: Tensor  # [B, M, A] float32, simulations that went through the move
    total: Tensor  # [B, M, A] the sum of their values, for who made the move
    over: Tensor  # [B, M] bool: the game has ended there
    paid: Tensor  # [B, M] what who moved there was paid


# (positions [B, ...], seed) to the moves' probabilities [B, A] and the value for who is on turn [B].
Evaluate = Callable[[Nest, Tensor], tuple[Tensor, Tensor]]
# (prior, visits, total of values, each [B, A]) to what a descent follows most, [B, A].
Score = Callable[[Tensor, Tensor, Tensor], Tensor]


def search(game: Game, root: Nest, simulations: int, evaluate: Evaluate, score: Score, seed: Tensor) -> Tree:
    """Returns the trees after `simulations` simulations from positions [B, ...].

    A position that is over by itself is searched as if it were not: what is found there means nothing.
    """
    prior, _ = evaluate(root, random.fold_in(seed, simulations))
    count, moves, nodes = int(prior.shape[0]), int(prior.shape[1]), simulations + 1
    per_move, per_node = [count, nodes, moves], [count, nodes]
    position = tf.nest.map_structure(lambda x: _put_first(x, nodes), root)
    zeros, never = tf.zeros(per_move), tf.zeros(per_node, tf.bool)
    child = tf.fill(per_move, -1)
    tree = Tree(position, _put_first(prior, nodes), child, zeros, zeros, never, tf.zeros(per_node))

    def simulate(i: Tensor, tree: Tree) -> tuple[Tensor, Tree]:
        return i + 1, _simulation(game, tree, i, evaluate, score, random.fold_in(seed, i))

    return tf.while_loop(
        lambda i, _: i < simulations, simulate, (tf.constant(0), tree), maximum_iterations=simulations
    )[1]


def uct(game: Game, root: Nest, playouts: int, seed: Tensor, exploration: float = math.sqrt(2.0)) -> Tensor:
    """Returns how often a tree search tried each move of the positions [B, ...], float32 [B, A].

    A playout is random to the end; a move's score is its mean value, in [-1, 1], and
    exploration * sqrt(ln(visits of the node) / visits of the move), untried moves first, in random order.
    """

    def evaluate(position: Nest, seed: Tensor) -> tuple[Tensor, Tensor]:
        order, play = random.split(seed, 2)
        legal = tf.cast(game.legal_moves(position), tf.float32)
        prior = legal * (0.5 + 0.5 * random.uniform(order, legal.shape))  # orders untried moves
        return prior, playout(game, position, play)

    def score(prior: Tensor, visits: Tensor, total: Tensor) -> Tensor:
        tried = tf.maximum(visits, 1.0)
        node = tf.maximum(tf.reduce_sum(visits, -1, keepdims=True), 1.0)
        bound = total / tried + exploration * tf.sqrt(tf.math.log(node) / tried)
        return tf.where(visits > 0.0, bound, UNSEEN + prior)

    return search(game, root, playouts, evaluate, score, seed).visits[:, 0]


def playout(game: Game, position: Nest, seed: Tensor) -> Tensor:
    """Returns what random moves to the end bring who is on turn, [B]."""
    count = int(tf.nest.flatten(position)[0].shape[0])

    def body(i: Tensor, position: Nest, sign: Tensor, value: Tensor, over: Tensor) -> tuple[Tensor, ...]:
        legal = tf.where(game.legal_moves(position), 0.0, NEVER)
        noise = random.uniform(random.fold_in(seed, i), legal.shape)
        position, paid, ended = game.play(position, tf.argmax(legal + noise, -1, tf.int32))
        value = tf.where(over, value, value + sign * paid)
        return i + 1, position, -sign, value, over | ended

    zeros = tf.zeros([count])
    start = tf.constant(0), position, zeros + 1.0, zeros, tf.zeros([count], tf.bool)
    return tf.while_loop(lambda *carry: ~tf.reduce_all(carry[-1]), body, start)[3]


class _Path(NamedTuple):
    """The descents of a simulation, after some of their steps."""

    node: Tensor  # [B] int32, the last node
    move: Tensor  # [B] int32, the move followed there
    depth: Tensor  # [B] int32, moves followed
    nodes: Tensor  # [B, M] int32, the nodes gone through
    moves: Tensor  # [B, M] int32, the moves followed there


def _simulation(game: Game, tree: Tree, i: Tensor, evaluate: Evaluate, score: Score, seed: Tensor) -> Tree:
    """Adds the i-th simulation: its node is i + 1, where it does not end in one that is there."""
    path, node = _descend(tree, score)
    known = node >= 0  # [B]: a node where the game is over, visited again
    before = tf.nest.map_structure(lambda x: tf.gather(x, path.node, batch_dims=1), tree.position)
    position, paid, over = game.play(before, path.move)
    prior, value = evaluate(position, seed)
    value = tf.where(over, -paid, value)  # for who is on turn there
    value = tf.where(known, -tf.gather(tree.paid, tf.maximum(node, 0), batch_dims=1), value)

    place = tf.one_hot(i + 1, tree.over.shape[1], True, False)[None] & ~known[:, None]  # [B, M]
    put = tf.nest.map_structure(lambda new, old: _put(place, new, old), position, tree.position)
    parent = tf.one_hot(path.node, tree.over.shape[1], True, False)[..., None]  # [B, M, 1]
    step = parent & tf.one_hot(path.move, tree.child.shape[2], True, False)[:, None]  # [B, M, A]
    child = tf.where(step & ~known[:, None, None], i + 1, tree.child)
    visits, total = _back_up(tree, path, value)
    return Tree(
        put,
        _put(place, prior, tree.prior),
        child,
        visits,
        total,
        _put(place, over, tree.over),
        _put(place, paid, tree.paid),
    )


def _descend(tree: Tree, score: Score) -> tuple[_Path, Tensor]:
    """Follows the best scores to moves that lead to no node yet, or to an end; returns the node there, -1:
    none yet."""
    count, nodes = tree.over.shape

    def follow(path: _Path, node: Tensor, _: Tensor) -> tuple[_Path, Tensor, Tensor]:
        going = (node >= 0) & ~tf.gather(tree.over, tf.maximum(node, 0), batch_dims=1)  # [B]
        at = tf.where(going, node, path.node)
        prior, visits, total = (tf.gather(x, at, batch_dims=1) for x in (tree.prior, tree.visits, tree.total))
        best = tf.where(prior > 0.0, score(prior, visits, total), NEVER)
        move = tf.where(going, tf.argmax(best, -1, tf.int32), path.move)
        here = tf.one_hot(path.depth, nodes, True, False) & going[:, None]  # [B, M]
        path = _Path(
            at,
            move,
            path.depth + tf.cast(going, tf.int32),
            tf.where(here, at[:, None], path.nodes),
            tf.where(here, move[:, None], path.moves),
        )
        chosen = tf.gather(tf.gather(tree.child, at, batch_dims=1), move, batch_dims=1)
        node = tf.where(going, chosen, node)
        ended = (node < 0) | tf.gather(tree.over, tf.maximum(node, 0), batch_dims=1)
        return path, node, tf.reduce_all(ended)

    zero, rows = tf.zeros([count], tf.int32), tf.zeros([count, nodes], tf.int32)
    start = _Path(zero, zero, zero, rows, rows), zero, tf.constant(False)
    path, node, _ = tf.while_loop(lambda *carry: ~carry[-1], follow, start, maximum_iterations=nodes)
    return path, node


def _back_up(tree: Tree, path: _Path, value: Tensor) -> tuple[Tensor, Tensor]:
    """Visits and totals [B, M, A] with a value, for who is on turn where the path ends, added to all that it
    went through, its sign changed from move to move."""
    count = tree.over.shape[0]
    rows = tf.range(count)

    def body(i: Tensor, visits: Tensor, total: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        within = tf.cast(i < path.depth, tf.float32)  # [B]
        place = tf.stack([rows, path.nodes[:, i], path.moves[:, i]], 1)
        odd = tf.cast((path.depth - i) % 2, tf.float32)  # 1: made by who is not on turn at the end
        visits = tf.tensor_scatter_nd_add(visits, place, within)
        return i + 1, visits, tf.tensor_scatter_nd_add(total, place, within * value * (1.0 - 2.0 * odd))

    start = tf.constant(0), tree.visits, tree.total
    longest = tf.reduce_max(path.depth)
    _, visits, total = tf.while_loop(
        lambda i, *_: i < longest, body, start, maximum_iterations=tree.over.shape[1]
    )
    return visits, total


def _put_first(x: Tensor, nodes: int) -> Tensor:
    """Values [B, ...] as those of the first of so many nodes, [B, M, ...]."""
    return tf.pad(x[:, None], [[0, 0], [0, nodes - 1]] + [[0, 0]] * (x.shape.rank - 1))


def _put(place: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Node values old [B, M, ...] with new [B, ...] where place [B, M] is True."""
    shape = [*place.shape, *[1] * (old.shape.rank - 2)]
    return tf.where(tf.reshape(place, shape), new[:, None], old)
