"""Tree search in tensors: B trees side by side, each of a fixed number of nodes, in one compiled loop.

A node's arrays have an entry for each of its A moves. Each simulation descends from the root by the best
scores, adds one new leaf, evaluates it, and backs its value up: each move on the path gets its reward plus
`discount` times the return that followed. In turn-based zero-sum games for two, a value is that of the player
to move, and the discount is -1.

Searches differ in two functions: `recurrent` returns where moves lead, and the values and move priors of
these positions; `score` chooses the move that a descent follows. `uct` is Kocsis & Szepesvari 2006,
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

UNSEEN = 1e3  # score of a move that was never tried; a small number that orders such moves is added
NEVER = -1e9  # score of an illegal move
LEAST = 1e-6  # prior of a legal move


class Game(Protocol):
    """The rules, for any number N of positions; `rl.envs.graph.multi_agent.TurnGame` has them."""

    def legal_moves(self, physics: Nest) -> Tensor:
        """Returns the legal moves of the player to move, bool [N, A]."""

    def play(self, physics: Nest, move: Tensor) -> tuple[Nest, Tensor, Tensor]:
        """Returns positions [N, ...], the mover's reward [N], and whether the game is over [N]."""


class Moved(NamedTuple):
    """The outcome of moves."""

    position: Nest  # [B, ...]
    reward: Tensor  # [B] for who made the move
    terminated: Tensor  # [B] bool
    truncated: Tensor  # [B] bool


class Model(Protocol):
    """An environment as a search asks about it (`rl.envs.graph.model`), of B positions at once."""

    moves: int  # A, how many there are
    sign: float  # factor of later values for the player who moved: -1 in turn-based games for two, else 1

    def position(self, state: Nest, observation: Nest, score: Tensor) -> Nest:
        """Returns positions [B, ...] from the environment's states, observations and returns so far [B]."""

    def observe(self, position: Nest) -> Nest:
        """Returns the observation of the player to move, [B, ...]."""

    def score(self, position: Nest) -> Tensor:
        """Returns the episodes' returns so far, [B]; only called for one player."""

    def step(self, position: Nest, move: Tensor, seed: Tensor) -> Moved:
        """Returns the outcome of moves [B] int32. Positions after an episode's end are meaningless."""

    def rows(self, position: Nest, weights: Tensor) -> Tensor:
        """Returns the action probabilities of every row that is played, from the move probabilities [B, A] of
        the player to move."""


class Tree(NamedTuple):
    """B trees of at most M nodes, of which node 0 is the root."""

    position: Nest  # [B, M, ...]
    prior: Tensor  # [B, M, A] how likely a move is, 0: it is illegal
    child: Tensor  # [B, M, A] int32, the node that a move leads to, -1: not yet
    visits: Tensor  # [B, M, A] float32, simulations that went through the move
    total: Tensor  # [B, M, A] the sum of the returns of these, for the player who moved
    reward: Tensor  # [B, M] of the move that led there
    discount: Tensor  # [B, M] factor of the returns after it, 0: terminal
    value: Tensor  # [B, M] the node's value when it was added


class Node(NamedTuple):
    """The data of one node of each of B trees."""

    prior: Tensor  # [B, A]
    visits: Tensor  # [B, A]
    total: Tensor  # [B, A]
    value: Tensor  # [B]

    @property
    def q(self) -> Tensor:
        """The mean return of each move, [B, A], 0 where it was never tried."""
        return self.total / tf.maximum(self.visits, 1.0)


class Step(NamedTuple):
    """The outcome of moves from B positions, with the new positions' values and priors."""

    position: Nest  # [B, ...]
    reward: Tensor  # [B] for the player who moved
    discount: Tensor  # [B] factor of the value there, -1 where that is the other player's; 0: terminal
    prior: Tensor  # [B, A] how likely the moves there are, 0: illegal
    value: Tensor  # [B] of the position, for the player to move there


# From (positions [B, ...], moves [B] int32, seed) to their outcome.
Recurrent = Callable[[Nest, Tensor, Tensor], Step]
# From nodes to scores [B, A]; a descent follows the move with the highest score.
Score = Callable[[Node], Tensor]


class Found(NamedTuple):
    """The results of a search from B positions."""

    visits: Tensor  # [B, A] float32, simulations that began with a move
    weights: Tensor  # [B, A] the search's policy, for a network to learn
    value: Tensor  # [B] the positions' values by the search
    acting: Tensor  # [B, A] the probabilities by which to act in training


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

    A terminal root is searched as if it were not terminal; its results are meaningless.

    Args:
        recurrent: see `Recurrent`.
        root: the positions.
        prior: [B, A] of their moves.
        simulations: how many.
        score: see `Score`.
        seed: of what `recurrent` draws.
        value: [B] of the positions, for a score that reads it; None: 0.
        root_score: the score function at the root, if it differs from `score`.
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
    """Searches the positions [B, ...] with move priors [B, A] and position values, usually both of a network.

    A descent follows the greatest Q + c_puct P sqrt(N) / (1 + n): Q is the move's mean return, 0 if it was
    never tried, P its prior, n its visits, and N the visits of its node. N includes the visit that added the
    node, so that the move of the greatest prior is tried first.

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
    """Returns the softmax of logits [B, A] over legal moves, bool [B, A]. Legal moves get at least `LEAST`,
    since 0 means illegal."""
    prior = tf.nn.softmax(tf.where(legal, logits, NEVER))
    return tf.where(legal, tf.maximum(prior, LEAST), 0.0)


def noisy(prior: Tensor, share: float, concentration: float, seed: Tensor) -> Tensor:
    """Returns the prior [B, A] mixed with the share `share` of Dirichlet noise over legal moves (Silver et
    al. 2017, methods, "Self-play"). Legal moves get at least `LEAST`, since 0 means illegal."""
    legal = prior > 0.0
    noise = random.dirichlet(seed, legal, concentration)
    return tf.where(legal, tf.maximum((1.0 - share) * prior + share * noise, LEAST), 0.0)


def playout(game: Game, position: Nest, seed: Tensor) -> Tensor:
    """Returns the return of random moves to the end of the game, for the player to move, [B]."""
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
    """Adds the i-th simulation: its new node is i + 1, unless it ends in an existing terminal node. scores:
    (below the root, at the root)."""
    path, node = _descend(tree, *scores)
    known = node >= 0  # [B]: a terminal node, visited again
    before = tf.nest.map_structure(lambda x: tf.gather(x, path.node, batch_dims=1), tree.position)
    step = recurrent(before, path.move, seed)

    nodes, moves = tree.prior.shape[1:]
    place = _is(i + 1, nodes)[None] & ~known[:, None]  # [B, M]
    parent = _is(path.node, nodes)[..., None]  # [B, M, 1]
    made = parent & _is(path.move, moves)[:, None]  # [B, M, A]
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
    """Follows the best scores until a move leads to a new position or to a terminal node; returns the path
    and that node, -1 for a new position."""
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
        place = _is(path.depth, nodes) & going[:, None]  # [B, M]
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
    """Returns the data of the trees' nodes `place`, int32 [B]."""
    fields = tree.prior, tree.visits, tree.total, tree.value
    return Node(*(tf.gather(x, place, batch_dims=1) for x in fields))


def _back_up(tree: Tree, path: _Path, end: Tensor, value: Tensor) -> Tree:
    """Backs up a simulation: adds its discounted return, which ends with the value [B] of the node `end` [B],
    to all moves on its path."""
    rows, longest = tf.range(end.shape[0]), tf.reduce_max(path.depth)

    def body(
        i: Tensor, after: Tensor, value: Tensor, visits: Tensor, total: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        t = longest - 1 - i
        within = t < path.depth  # [B]
        brought = tf.gather(tree.reward, after, batch_dims=1)
        brought += tf.gather(tree.discount, after, batch_dims=1) * value
        value = tf.where(within, brought, value)
        node = tf.gather(path.nodes, t, axis=1)  # [B]
        place = tf.stack([rows, node, tf.gather(path.moves, t, axis=1)], 1)
        visits = tf.tensor_scatter_nd_add(visits, place, tf.cast(within, tf.float32))
        total = tf.tensor_scatter_nd_add(total, place, tf.where(within, value, 0.0))
        return i + 1, tf.where(within, node, after), value, visits, total

    start = tf.constant(0), end, value, tree.visits, tree.total
    found = tf.while_loop(lambda i, *_: i < longest, body, start, maximum_iterations=tree.discount.shape[1])
    return tree._replace(visits=found[3], total=found[4])


def _is(place: Tensor, size: int) -> Tensor:
    """Places int32 [...] as rows of bools [..., size], in which only that place is True. (`tf.one_hot` makes
    such ones too, but the converter to ONNX cannot read it.)"""
    return tf.equal(tf.expand_dims(place, -1), tf.range(size))


def _put_first(x: Tensor, nodes: int) -> Tensor:
    """Values [B, ...] as those of the first of so many nodes, [B, M, ...]."""
    return tf.pad(x[:, None], [[0, 0], [0, nodes - 1]] + [[0, 0]] * (x.shape.rank - 1))


def _put(place: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Node values old [B, M, ...] with new [B, ...] where place [B, M] is True."""
    shape = [*place.shape, *[1] * (old.shape.rank - 2)]
    return tf.where(tf.reshape(place, shape), new[:, None], old)
