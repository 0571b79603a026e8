"""The causal transformer: attention by hand, what a token sees and what it does not."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from scipy import special

from rl.models.layers import Initializers
from rl.models.transformer import Block, Transformer, may_see

WIDTH, HEADS = 8, 2


def tokens(seed=0, count=2, length=6):
    return np.random.default_rng(seed).normal(size=(count, length, WIDTH)).astype(np.float32)


def made(kind=Transformer, *sizes):
    """With weights that are far from symmetric, biases and scales included."""
    layer = kind(WIDTH, *sizes, Initializers(0), "transformer")
    rng = np.random.default_rng(1)
    for each in layer.trainable_variables:
        each.assign(each + rng.normal(0.0, 0.3, each.shape))
    return layer


def test_a_token_sees_those_up_to_itself_that_are_real():
    sees = may_see(tf.constant([[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]))
    assert sees.numpy().astype(int).tolist() == [
        [[0, 0, 0], [0, 1, 0], [0, 1, 1]],
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]],
    ]


def test_attention_of_equal_scores_is_the_mean_of_what_is_seen():
    """Queries of 0 weigh all alike, values and mix are the identity; the inner layers give 0. A token of
    [3, -3] is [1, -1] when it is normalised, one of [-2, 2] is [-1, 1]."""
    block = Block(2, 1, Initializers(0), "block")
    for each in block.trainable_variables:
        each.assign(tf.zeros_like(each.value))
    block.attention_norm.gamma.assign([1.0, 1.0])
    block.value.kernel.assign(np.eye(2))
    block.mix.kernel.assign(np.eye(2))
    x = tf.constant([[[3.0, -3.0], [-2.0, 2.0], [-2.0, 2.0]]])
    found = block(x, may_see(tf.ones([1, 3])))
    third = 1.0 / 3.0
    np.testing.assert_allclose(
        found, [[[4.0, -4.0], [-2.0, 2.0], [-2.0 - third, 2.0 + third]]], rtol=1e-4, atol=1e-5
    )


def test_a_block_equals_numpy():
    block, x = made(Block, HEADS), tokens()

    def norm(layer, x):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * layer.gamma.numpy() + layer.beta.numpy()

    def through(layer, x):
        return x @ layer.kernel.numpy() + layer.bias.numpy()

    seen, mixed = norm(block.attention_norm, x), np.zeros_like(x)
    for n in range(2):
        for part in np.split(np.arange(WIDTH), HEADS):  # the numbers of a head
            query, key, value = (
                through(layer, seen[n])[:, part] for layer in (block.query, block.key, block.value)
            )
            for t in range(6):
                weights = special.softmax(query[t] @ key[: t + 1].T / np.sqrt(WIDTH / HEADS))
                mixed[n, t, part] = weights @ value[: t + 1]
    x = x + through(block.mix, mixed)
    expected = x + through(block.outer, np.maximum(through(block.inner, norm(block.inner_norm, x)), 0.0))
    np.testing.assert_allclose(block(tokens(), may_see(tf.ones([2, 6]))), expected, rtol=1e-4, atol=1e-5)


def test_what_comes_later_changes_nothing_before():
    transformer, x, mask = made(Transformer, 2, HEADS), tokens(), tf.ones([2, 6])
    changed = x.copy()
    changed[:, 4, 0] += 1.0
    before, after = (transformer(tf.constant(each), mask).numpy() for each in (x, changed))
    np.testing.assert_array_equal(after[:, :4], before[:, :4])
    assert (np.abs(after[:, 4:] - before[:, 4:]).max(-1) > 1e-3).all()


def test_tokens_that_fill_up_change_nothing():
    transformer, x, mask = made(Transformer, 2, HEADS), tokens(), np.ones((2, 6), np.float32)
    mask[0, :2] = 0.0
    found = []
    for first in (x[0, :2], np.full((2, WIDTH), 7.0)):
        filled = x.copy()
        filled[0, :2] = first
        found.append(transformer(tf.constant(filled), tf.constant(mask)).numpy()[0, 2:])
    np.testing.assert_array_equal(found[0], found[1])
    alone = transformer(tf.constant(x[:1, 2:]), tf.ones([1, 4])).numpy()[0]
    np.testing.assert_allclose(found[0], alone, rtol=1e-4, atol=1e-5)
