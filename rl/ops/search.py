"""Tree search in tensors: B trees side by side, each of a fixed number of nodes, in one compiled loop.

A node's arrays have a place for each of its A moves. Each simulation goes down from the root by the best
scores, adds the one node that it comes to, values it, and adds what a move brought in all, its reward and
`discount` times what followed, to each move that it went through. In games of two by turns, whose gain is
the other's loss, a value is that of who is on turn, and the discount is -1.

What differs between searches are two functions: `recurrent` says where moves lead, what these positions are
worth and how likely their moves are, `score` which move a descent follows. `uct` is Kocsis & Szepesvari 2006,
"Bandit based Monte-Carlo planning", with a random playout as value; `puct` is AlphaGo Zero's search (Silver
et al. 2017, "Mastering the game of Go without human knowledge", methods, "Select"), and MuZero's; that with
Gumbel noise and sequential halving is `rl.ops.gumbel_search`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import tensorflow as tf

from rl.ops import random
from rl.types import Nest, Tensor

UNSEEN = 1e3  # score of a move that was never tried; what orders these is added to it, in float32
NEVER = -1e9  # of an illegal one
LEAST = 1e-6  # prior of a legal move


class Game(Protocol):
    """The rules, for any number N of positions; `rl.envs.graph.multi_agent.TurnGame` has them."""

    def legal_moves(self, physics: Nest) -> Tensor:
        """Returns the moves of who is on turn, bool [N, A]."""

    def play(self, physics: Nest, move: Tensor) -> tuple[Nest, Tensor, Tensor]:
        """Returns positions [N, ...], what the mover is paid [N], whether the game is over [N]."""


class Moved(NamedTuple):
    """Where moves lead."""

    position: Nest  # [B, ...]
    reward: Tensor  # [B] for who made the move
    terminated: Tensor  # [B] bool
    truncated: Tensor  # [B] bool


class Model(Protocol):
    """An environment as a search asks about it (`rl.envs.graph.model`), of B positions at once."""

    moves: int  # A, how many there are
    sign: float  # by which the value of what follows counts for who made a move: -1 of two by turns

    def position(self, state: Nest, observation: Nest, score: Tensor) -> Nest:
        """Returns positions [B, ...] from what is played: states, observations, returns so far [B]."""

    def observe(self, position: Nest) -> Nest:
        """Returns what who is on turn observes, [B, ...]."""

    def score(self, position: Nest) -> Tensor:
        """Returns the episodes' returns so far, [B]; asked for of one player alone."""

    def step(self, position: Nest, move: Tensor, seed: Tensor) -> Moved:
        """Returns where moves [B] int32 lead. What follows an end means nothing."""

    def rows(self, position: Nest, weights: Tensor) -> Tensor:
        """Returns the actions' shares for every row that is played, from those of the moves of who is on
        turn, [B, A]."""


class Tree(NamedTuple):
    """B trees of at most M nodes, of which node 0 is the root."""

    position: Nest  # [B, M, ...]
    prior: Tensor  # [B, M, A] how likely a move is, 0: it is illegal
    child: Tensor  # [B, M, A] int32, the node that a move leads to, -1: not yet
    visits: Tensor  # [B, M, A] float32, simulations that went through the move
    total: Tensor  # [B, M, A] the sum of what it brought them, for who made the move
    reward: Tensor  # [B, M] of the move that led there
    discount: Tensor  # [B, M] by which what follows it counts, 0: nothing follows
    value: Tensor  # [B, M] what the node was worth when it was added


class Node(NamedTuple):
    """What a tree knows of one node of each of B trees."""

    prior: Tensor  # [B, A]
    visits: Tensor  # [B, A]
    total: Tensor  # [B, A]
    value: Tensor  # [B]

    @property
    def q(self) -> Tensor:
        """What each move has brought in the mean, [B, A], 0 where it was never tried."""
        return self.total / tf.maximum(self.visits, 1.0)


class Step(NamedTuple):
    """Where moves from B positions lead."""

    position: Nest  # [B, ...]
    reward: Tensor  # [B] for who made the move
    discount: Tensor  # [B] of the value there, -1 where that is the other player's; 0: nothing follows
    prior: Tensor  # [B, A] how likely the moves there are, 0: illegal
    value: Tensor  # [B] of the position, for who is on turn there


# (positions [B, ...], moves [B] int32, seed) to where they lead.
Recurrent = Callable[[Nest, Tensor, Tensor], Step]
# Nodes to what a descent follows most, [B, A].
Score = Callable[[Node], Tensor]


class Found(NamedTuple):
    """What a search says of B positions."""

    visits: Tensor  # [B, A] float32, simulations that tried a move first
    weights: Tensor  # [B, A] the policy that was found, for a network to learn
    value: Tensor  # [B] what the positions are worth by it
    acting: Tensor  # [B, A] the shares by which to act in training


def search(
    recurrent: Recurrent,
    root: Nest,
    prior: Tensor,
    simulations: int,
    score: Score,
    seed: Tensor,
    value: Tensor | None = None,
    root_score: Score | None = None,
) -> Tree:
    """Returns the trees after so many simulations from positions [B, ...].

    A position that is over by itself is searched as if it were not: what is found there means nothing.

    Args:
        recurrent: see `Recurrent`.
        root: the positions.
        prior: [B, A] of their moves.
        simulations: how many.
        score: see `Score`.
        seed: of what `recurrent` draws.
        value: [B] of the positions, for a score that reads it; None: 0.
        root_score: `score` at the root, where that is another one.
    """
    count, moves, nodes = int(prior.shape[0]), int(prior.shape[1]), simulations + 1
    per_move, per_node = [count, nodes, moves], [count, nodes]
    position = tf.nest.map_structure(lambda x: _put_first(x, nodes), root)
    zeros = tf.zeros(per_move)
    child, discount = tf.fill(per_move, -1), tf.ones(per_node)
    known = tf.zeros(per_node) if value is None else _put_first(value, nodes)
    tree = Tree(position, _put_first(prior, nodes), child, zeros, zeros, tf.zeros(per_node), discount, known)
    scores = score, score if root_score is None else root_score

    def simulate(i: Tensor, tree: Tree) -> tuple[Tensor, Tree]:
        return i + 1, _simulation(recurrent, tree, i, scores, random.fold_in(seed, i))

    return tf.while_loop(
        lambda i, _: i < simulations, simulate, (tf.constant(0), tree), maximum_iterations=simulations
    )[1]


def uct(game: Game, root: Nest, playouts: int, seed: Tensor, exploration: float = math.sqrt(2.0)) -> Tensor:
    """Returns how often a tree search tried each move of the positions [B, ...], float32 [B, A].

    A playout is random to the end; a move's score is its mean value, in [-1, 1], and
    exploration * sqrt(ln(visits of the node) / visits of the move), untried moves first, in random order.
    """

    def ordered(position: Nest, seed: Tensor) -> Tensor:
        legal = tf.cast(game.legal_moves(position), tf.float32)
        return legal * (0.5 + 0.5 * random.uniform(seed, legal.shape))  # orders untried moves

    def recurrent(position: Nest, move: Tensor, seed: Tensor) -> Step:
        order, play = random.split(seed, 2)
        position, paid, over = game.play(position, move)
        value = playout(game, position, play)
        return Step(position, paid, tf.where(over, 0.0, -1.0), ordered(position, order), value)

    def score(node: Node) -> Tensor:
        tried = tf.maximum(node.visits, 1.0)
        every = tf.maximum(tf.reduce_sum(node.visits, -1, keepdims=True), 1.0)
        bound = node.q + exploration * tf.sqrt(tf.math.log(every) / tried)
        return tf.where(node.visits > 0.0, bound, UNSEEN + node.prior)

    order, _ = random.split(random.fold_in(seed, playouts), 2)
    return search(recurrent, root, ordered(root, order), playouts, score, seed).visits[:, 0]


def puct(
    recurrent: Recurrent,
    root: Nest,
    prior: Tensor,
    simulations: int,
    seed: Tensor,
    c_puct: float,
    value: Tensor | None = None,
    least_range: float = 1e-8,
) -> Found:
    """Returns what a tree search with priors of moves and values of positions, both of a network mostly,
    finds in the positions [B, ...], whose moves' prior is [B, A].

    A move is followed by Q + c_puct P sqrt(N) / (1 + n): Q is the mean of what it brought, 0 where it was
    never tried, P its prior, n its visits, N those of its node, the one that added it included, so that the
    first move to be tried is that of the greatest prior.

    value: [B] of the positions where values may be of any size: then Q is 0 for the least and 1 for the
    greatest among the node's moves and its own mean value (as mctx has it; MuZero, equation 5 of
    https://arxiv.org/abs/1911.08265, takes the least and greatest of the whole tree). None: values are within
    [-1, 1], which Q then is as well.

    least_range: see `rescaled`.
    """

    def score(node: Node) -> Tensor:
        every = 1.0 + tf.reduce_sum(node.visits, -1, keepdims=True)
        q = node.q if value is None else _within_unit(node, least_range)
        return q + c_puct * node.prior * tf.sqrt(every) / (1.0 + node.visits)

    tree = search(recurrent, root, prior, simulations, score, seed, value)
    visits = tree.visits[:, 0]
    weights, mean = visits / simulations, tf.reduce_sum(tree.total[:, 0], -1) / simulations
    return Found(visits, weights, mean, weights)


def rescaled(q: Tensor, least_range: float = 1e-8) -> Tensor:
    """Returns values [B, A] with the least of every row at 0 and the greatest at 1, or below 1 where they are
    less than `least_range` apart: then they are divided by that, so that noise is not taken for a difference
    (EfficientZero's `value_delta_max`, https://github.com/YeWR/EfficientZero)."""
    low, high = (f(q, -1, keepdims=True) for f in (tf.reduce_min, tf.reduce_max))
    return (q - low) / tf.maximum(high - low, least_range)


def _within_unit(node: Node, least_range: float) -> Tensor:
    """Q [B, A] from 0 to 1 among a node's moves and its own value, 0 where a move was never tried."""
    mean = (node.value + tf.reduce_sum(node.total, -1)) / (1.0 + tf.reduce_sum(node.visits, -1))
    known = tf.where(node.visits > 0.0, node.q, mean[:, None])
    scaled = rescaled(tf.concat([known, mean[:, None]], -1), least_range)[:, :-1]
    return tf.where(node.visits > 0.0, scaled, 0.0)


def legal_prior(logits: Tensor, legal: Tensor) -> Tensor:
    """Returns the softmax of logits [B, A] over legal moves, bool [B, A], of which none has less than
    `LEAST`, since 0 means illegal."""
    prior = tf.nn.softmax(tf.where(legal, logits, NEVER))
    return tf.where(legal, tf.maximum(prior, LEAST), 0.0)


def noisy(prior: Tensor, share: float, concentration: float, seed: Tensor) -> Tensor:
    """Returns the prior [B, A] with so much of it drawn anew, over legal moves, from a Dirichlet distribution
    (Silver et al. 2017, methods, "Self-play"), of which none has less than `LEAST`, since 0 means illegal."""
    legal = prior > 0.0
    noise = random.dirichlet(seed, legal, concentration)
    return tf.where(legal, tf.maximum((1.0 - share) * prior + share * noise, LEAST), 0.0)


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


def _simulation(
    recurrent: Recurrent, tree: Tree, i: Tensor, scores: tuple[Score, Score], seed: Tensor
) -> Tree:
    """Adds the i-th simulation: its node is i + 1, where it does not end in one that is there. scores: below
    the root, and there."""
    path, node = _descend(tree, *scores)
    known = node >= 0  # [B]: a node that nothing follows, visited again
    before = tf.nest.map_structure(lambda x: tf.gather(x, path.node, batch_dims=1), tree.position)
    step = recurrent(before, path.move, seed)

    nodes, moves = tree.prior.shape[1:]
    place = tf.one_hot(i + 1, nodes, True, False)[None] & ~known[:, None]  # [B, M]
    parent = tf.one_hot(path.node, nodes, True, False)[..., None]  # [B, M, 1]
    made = parent & tf.one_hot(path.move, moves, True, False)[:, None]  # [B, M, A]
    tree = tree._replace(
        position=tf.nest.map_structure(lambda new, old: _put(place, new, old), step.position, tree.position),
        prior=_put(place, step.prior, tree.prior),
        child=tf.where(made & ~known[:, None, None], i + 1, tree.child),
        reward=_put(place, step.reward, tree.reward),
        discount=_put(place, step.discount, tree.discount),
        value=_put(place, step.value, tree.value),
    )
    return _back_up(tree, path, tf.where(known, node, i + 1), step.value)


def _descend(tree: Tree, score: Score, root_score: Score) -> tuple[_Path, Tensor]:
    """Follows the best scores to moves that lead to no node yet, or to one that nothing follows; returns the
    node there, -1: none yet."""
    count, nodes = tree.discount.shape

    def ends(node: Tensor) -> Tensor:
        discount = tf.gather(tree.discount, tf.maximum(node, 0), batch_dims=1)
        return (node < 0) | tf.equal(discount, 0.0)  # [B]

    def follow(path: _Path, node: Tensor, _: Tensor) -> tuple[_Path, Tensor, Tensor]:
        going = ~ends(node)
        at = tf.where(going, node, path.node)
        here = node_at(tree, at)
        best = score(here)
        if root_score is not score:
            best = tf.where(tf.equal(at, 0)[:, None], root_score(here), best)
        best = tf.where(here.prior > 0.0, best, NEVER)
        move = tf.where(going, tf.argmax(best, -1, tf.int32), path.move)
        place = tf.one_hot(path.depth, nodes, True, False) & going[:, None]  # [B, M]
        path = _Path(
            at,
            move,
            path.depth + tf.cast(going, tf.int32),
            tf.where(place, at[:, None], path.nodes),
            tf.where(place, move[:, None], path.moves),
        )
        chosen = tf.gather(tf.gather(tree.child, at, batch_dims=1), move, batch_dims=1)
        node = tf.where(going, chosen, node)
        return path, node, tf.reduce_all(ends(node))

    zero, rows = tf.zeros([count], tf.int32), tf.zeros([count, nodes], tf.int32)
    start = _Path(zero, zero, zero, rows, rows), zero, tf.constant(False)
    path, node, _ = tf.while_loop(lambda *carry: ~carry[-1], follow, start, maximum_iterations=nodes)
    return path, node


def node_at(tree: Tree, place: Tensor) -> Node:
    """Returns what trees know of their nodes `place`, int32 [B]."""
    fields = tree.prior, tree.visits, tree.total, tree.value
    return Node(*(tf.gather(x, place, batch_dims=1) for x in fields))


def _back_up(tree: Tree, path: _Path, end: Tensor, value: Tensor) -> Tree:
    """The trees with what the simulation brought, of which the last part is the value [B] of the node `end`
    [B], added to all moves that it went through."""
    rows, longest = tf.range(end.shape[0]), tf.reduce_max(path.depth)

    def body(
        i: Tensor, after: Tensor, value: Tensor, visits: Tensor, total: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        t = longest - 1 - i
        within = t < path.depth  # [B]
        brought = tf.gather(tree.reward, after, batch_dims=1)
        brought += tf.gather(tree.discount, after, batch_dims=1) * value
        value = tf.where(within, brought, value)
        place = tf.stack([rows, path.nodes[:, t], path.moves[:, t]], 1)
        visits = tf.tensor_scatter_nd_add(visits, place, tf.cast(within, tf.float32))
        total = tf.tensor_scatter_nd_add(total, place, tf.where(within, value, 0.0))
        return i + 1, tf.where(within, path.nodes[:, t], after), value, visits, total

    start = tf.constant(0), end, value, tree.visits, tree.total
    found = tf.while_loop(lambda i, *_: i < longest, body, start, maximum_iterations=tree.discount.shape[1])
    return tree._replace(visits=found[3], total=found[4])


def _put_first(x: Tensor, nodes: int) -> Tensor:
    """Values [B, ...] as those of the first of so many nodes, [B, M, ...]."""
    return tf.pad(x[:, None], [[0, 0], [0, nodes - 1]] + [[0, 0]] * (x.shape.rank - 1))


def _put(place: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Node values old [B, M, ...] with new [B, ...] where place [B, M] is True."""
    shape = [*place.shape, *[1] * (old.shape.rank - 2)]
    return tf.where(tf.reshape(place, shape), new[:, None], old)
