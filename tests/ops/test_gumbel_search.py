"""Search with Gumbel noise: mctx's numbers on the same game, and what its paper says by hand.

The literal numbers are those of mctx 0.0.71 (https://github.com/google-deepmind/mctx,
`gumbel_muzero_policy` and `muzero_policy` of key 3, with the Gumbel noise that it drew) on the game below.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.ops import random
from rl.ops.gumbel_search import completed, considered_visits, gumbel
from rl.ops.search import Node, Step, puct

STATES, MOVES = 11, 4
_S, _A = np.arange(STATES)[:, None], np.arange(MOVES)[None]
CHILD = (3 * _S + 2 * _A * _A + _A + 1) % STATES
LOGITS = np.float32(1.5 * np.sin(2.0 * _S + 3.0 * _A))
VALUE = np.float32(3.0 * np.cos(1.7 * np.arange(STATES)))
REWARD = np.float32(np.sin(0.9 * _S - 1.3 * _A))
DISCOUNT = np.float32(np.where(np.arange(STATES) == 4, 0.0, 0.9))  # the game is over in state 4
LEGAL = np.array([[1, 1, 1, 1], [0, 1, 1, 1], [1, 0, 1, 0]], bool)  # at the root: states 0, 1 and 2
NOISE = np.float32([[-1.29469, 0.489438, 0.312189, 0.738728], [0.033409, -0.676785, -0.427093, -0.261828],
                    [3.291281, 0.761722, -0.233655, 0.835223]])  # fmt: skip
SEED = random.key(0)


def played(position, move, seed):
    """Where moves lead in the game of tables."""
    after = tf.gather_nd(tf.constant(CHILD), tf.stack([position, tf.cast(move, position.dtype)], 1))
    reward = tf.gather_nd(tf.constant(REWARD), tf.stack([position, tf.cast(move, position.dtype)], 1))
    prior = tf.nn.softmax(tf.gather(LOGITS, after))
    return Step(after, reward, tf.gather(DISCOUNT, after), prior, tf.gather(VALUE, after))


def prior_of(legal):
    return tf.where(legal, tf.nn.softmax(np.where(legal, LOGITS[:3], -1e9)), 0.0)


def grown(jit_compile=True, legal=LEGAL, noise=NOISE, **options):
    def grow():
        root = tf.constant([0, 1, 2], tf.int64)
        return gumbel(
            played, root, prior_of(legal), tf.constant(VALUE[:3]), noise=noise, seed=SEED, **options
        )

    return tf.function(grow, jit_compile=jit_compile, autograph=False)()


@pytest.mark.parametrize("jit_compile", [False, True])
def test_it_finds_what_mctx_finds(jit_compile):
    found = grown(jit_compile, simulations=16, considered=4)
    np.testing.assert_array_equal(found.visits, [[2, 2, 6, 6], [0, 7, 7, 2], [8, 0, 8, 0]])
    weights = [[0.004353, 0.002234, 0.086142, 0.907271], [0.0, 0.936072, 0.058213, 0.005714],
               [0.995851, 0.0, 0.004149, 0.0]]  # fmt: skip
    np.testing.assert_allclose(found.weights, weights, atol=2e-6)
    np.testing.assert_allclose(found.value, [4.018434, 2.329856, 4.070781], rtol=1e-5)
    np.testing.assert_array_equal(np.argmax(found.acting, -1), [3, 1, 0])
    np.testing.assert_array_equal(np.sum(found.acting, -1), 1.0)


def test_with_fewer_moves_than_there_are_it_finds_what_mctx_finds():
    options = {"simulations": 13, "considered": 3, "value_scale": 0.05}
    found = grown(False, **options)
    np.testing.assert_array_equal(found.visits, [[0, 2, 5, 6], [0, 5, 6, 2], [7, 0, 6, 0]])
    np.testing.assert_allclose(found.weights[0], [0.138133, 0.028821, 0.121386, 0.71166], atol=2e-6)
    np.testing.assert_allclose(found.weights[1], [0.0, 0.451599, 0.510412, 0.037988], atol=2e-6)
    np.testing.assert_allclose(found.value, [3.584919, 0.132693, 3.800193], rtol=1e-5)
    np.testing.assert_array_equal(np.argmax(found.acting, -1), [3, 2, 0])
    without = grown(False, **options, noise=0.0 * NOISE)
    np.testing.assert_array_equal(without.visits, [[5, 2, 0, 6], [0, 5, 6, 2], [7, 0, 6, 0]])
    np.testing.assert_allclose(without.weights[0], [0.035868, 0.034645, 0.074025, 0.855462], atol=2e-6)


def test_values_nearer_together_than_the_least_range_leave_the_prior_as_it_is():
    found = grown(False, simulations=16, considered=4, least_range=1e9)
    np.testing.assert_allclose(found.weights, prior_of(LEGAL), atol=1e-6)


def test_puct_with_values_of_any_size_finds_what_mctx_finds():
    def grow():
        root = tf.constant([0, 1, 2], tf.int64)
        return puct(played, root, prior_of(np.ones_like(LEGAL)), 24, SEED, 1.25, tf.constant(VALUE[:3]))

    found = tf.function(grow, jit_compile=True, autograph=False)()
    np.testing.assert_array_equal(found.visits, [[1, 1, 0, 22], [22, 0, 2, 0], [0, 23, 0, 1]])
    np.testing.assert_allclose(found.value, [3.756082, 0.550042, 1.845986], rtol=1e-5)
    np.testing.assert_array_equal(found.acting, found.weights)


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        (4, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]),
        (5, [0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8]),
        (3, [0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5]),
        (2, [0, 0, 1, 1, 2, 2, 3]),
        (1, [0, 1, 2, 3]),
    ],
)
def test_simulations_are_shared_by_sequential_halving_as_in_mctx(moves, expected):
    assert considered_visits(moves, len(expected)).tolist() == expected


def test_moves_never_tried_have_the_mixed_value():
    """Priors 0.5, 0.3, 0.2; the first tried 3 times for 6, the second once for 1: Q 2 and 1. Weighted by
    their priors (0.5 * 2 + 0.3) / 0.8 = 1.625, mixed with a value of 4: (4 + 4 * 1.625) / 5 = 2.1."""
    node = Node(*map(tf.constant, ([[0.5, 0.3, 0.2]], [[3.0, 1.0, 0.0]], [[6.0, 1.0, 0.0]], [4.0])))
    np.testing.assert_allclose(completed(node), [[2.0, 1.0, 2.1]], rtol=1e-6)


def test_two_simulations_improve_a_policy_that_is_wrong():
    """A bandit: what the improved policy brings is more than the prior's, for any noise (section 4)."""
    paid = tf.constant([0.1, 0.9, 0.4, 0.0])

    def recurrent(position, move, seed):
        zeros = tf.zeros_like(move, tf.float32)
        return Step(position, tf.gather(paid, move), zeros, tf.fill([64, 4], 0.25), zeros)

    prior = tf.repeat(tf.constant([[0.4, 0.1, 0.3, 0.2]]), 64, 0)
    mean = tf.reduce_sum(prior * paid, -1)
    noise = random.gumbel(SEED, [64, 4])
    found = gumbel(recurrent, tf.zeros([64]), prior, mean, 2, noise, SEED, considered=2)
    brought = np.sum(found.weights * paid, -1)
    assert (brought > np.asarray(mean) + 0.05).all()
    acted = np.sum(found.acting * paid, -1)
    assert np.mean(acted) > np.mean(mean) + 0.1
