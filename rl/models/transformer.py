"""A causal transformer: of each token, what it and the tokens before it say."""

from __future__ import annotations

import math

import keras
import tensorflow as tf

from rl.models.layers import Initializers, dense
from rl.types import Tensor

FAR = -1e9  # scores of tokens that are not to be seen; finite, so that a token that sees none gives no NaN


def layer_norm(width: int, name: str) -> keras.layers.LayerNormalization:
    """Returns a built layer normalisation of the last axis (Ba et al. 2016)."""
    norm = keras.layers.LayerNormalization(epsilon=1e-5, name=name)
    norm.build((None, width))
    return norm


def may_see(mask: Tensor) -> Tensor:
    """Returns which tokens each token may see: those up to itself that are real, bool [N, L, L].

    mask: [N, L], 0 where a token fills up a sequence.
    """
    length = mask.shape[1]
    place = tf.range(length)
    earlier = place[:, None] >= place[None, :]  # [L, L], by the token that looks and the one that is seen
    return tf.logical_and(earlier[None], tf.cast(mask, tf.bool)[:, None, :])


class Block(keras.layers.Layer):
    """Attention and two dense layers, each added to what enters it, which is normalised first.

    Vaswani et al. 2017, https://arxiv.org/abs/1706.03762, in the order of GPT-2 (Radford et al. 2019), whose
    inner layer is four times as wide; its activation is ReLU here, as in Chen et al. 2021.
    """

    def __init__(self, width: int, heads: int, initializers: Initializers, name: str):
        super().__init__(name=name)
        self.width, self.heads = width, heads
        with keras.name_scope(name):
            self.attention_norm, self.inner_norm = (
                layer_norm(width, each) for each in ("attention_norm", "inner_norm")
            )
            self.query, self.key, self.value, self.mix = (
                dense(width, width, initializers.hidden("linear"), each)
                for each in ("query", "key", "value", "mix")
            )
            self.inner = dense(width, 4 * width, initializers.hidden("relu"), "inner", "relu")
            self.outer = dense(4 * width, width, initializers.hidden("linear"), "outer")
        self.built = True

    def call(self, x: Tensor, sees: Tensor) -> Tensor:
        """Maps tokens [N, L, D] to the same shape; sees: bool [N, L, L] (`may_see`)."""
        rows = [x.shape[0] * x.shape[1], self.width]  # of tokens, for the dense layers
        seen = tf.reshape(self.attention_norm(x), rows)
        query, key, value = (self._split(layer(seen), x) for layer in (self.query, self.key, self.value))
        scores = tf.matmul(query, key, transpose_b=True) / math.sqrt(self.width // self.heads)
        weights = tf.nn.softmax(tf.where(sees[:, None], scores, FAR))  # [N, H, L, L]
        mixed = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])  # [N, L, H, D / H]
        x = x + tf.reshape(self.mix(tf.reshape(mixed, rows)), x.shape)
        inner = self.inner(tf.reshape(self.inner_norm(x), rows))
        return x + tf.reshape(self.outer(inner), x.shape)

    def _split(self, rows: Tensor, x: Tensor) -> Tensor:
        """Rows of tokens by their heads, [N, H, L, D / H]."""
        parts = tf.reshape(rows, [x.shape[0], x.shape[1], self.heads, self.width // self.heads])
        return tf.transpose(parts, [0, 2, 1, 3])


class Transformer(keras.layers.Layer):
    """`layers` blocks one after another, and a last normalisation.

    Args:
        width: D, of a token, a multiple of `heads`.
        layers: how many blocks.
        heads: of the attention of each.
        initializers: of the weights.
        name: under which the variables are saved.
    """

    def __init__(self, width: int, layers: int, heads: int, initializers: Initializers, name: str):
        super().__init__(name=name)
        with keras.name_scope(name):
            self.blocks = [Block(width, heads, initializers, f"block_{i}") for i in range(layers)]
            self.norm = layer_norm(width, "norm")
        self.built = True

    def call(self, x: Tensor, mask: Tensor) -> Tensor:
        """Maps tokens [N, L, D] to the same shape; where `mask` [N, L] is 0, a token is seen by none."""
        sees = may_see(mask)
        for block in self.blocks:
            x = block(x, sees)
        return self.norm(x)
