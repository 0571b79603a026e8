"""Slates: which documents to show together, where a user chooses one of them or none."""

from __future__ import annotations

import itertools
import math

import numpy as np
import tensorflow as tf

from rl.ops import value
from rl.types import Tensor


def count_slates(candidates: int, size: int) -> int:
    """Returns how many slates of `size` different documents there are, order aside."""
    return math.comb(candidates, size)


def all_slates(candidates: int, size: int) -> np.ndarray:
    """Returns them, int32 [S, size], documents in ascending order."""
    return np.array(list(itertools.combinations(range(candidates), size)), np.int32)


def slate_values(q_values: Tensor, scores: Tensor, slates: Tensor) -> Tensor:
    """Returns the value of slates, [N, S], where users choose by the conditional logit model.

    Ie et al. 2019, "Reinforcement learning for slate-based recommender systems", equations 4 and 11: the
    values of what may be chosen, weighed by how likely each is. Choosing none is the last item.

    Args:
        q_values: of each document, then of choosing none, [N, C + 1].
        scores: logits of the choice likewise.
        slates: documents, int32 [S, K], the same for all, or [N, S, K].
    """
    where = dict(axis=1) if len(slates.shape) == 2 else dict(batch_dims=1)

    def items(x: Tensor) -> Tensor:
        of_slates = tf.gather(x, slates, **where)  # [N, S, K]
        none = tf.broadcast_to(x[:, None, -1:], [*of_slates.shape[:-1], 1])
        return tf.concat([of_slates, none], -1)  # [N, S, K + 1]

    # A softmax over what each slate offers: weights by the greatest of all scores would all be 0 in most.
    return tf.reduce_sum(tf.nn.softmax(items(scores)) * items(q_values), -1)


def best_slate(q_values: Tensor, scores: Tensor, slates: Tensor) -> Tensor:
    """Returns the best of the slates [S, K] for each example, int32 [N, K]."""
    return tf.gather(tf.convert_to_tensor(slates), tf.argmax(slate_values(q_values, scores, slates), 1))


def top_slate(q_values: Tensor, scores: Tensor, size: int) -> Tensor:
    """Returns the documents with the greatest value times weight of choice, int32 [N, size], in ascending
    order (section 5.2, "top-k"; values below 0 count as they are)."""
    weights = tf.exp(scores - tf.reduce_max(scores, 1, keepdims=True))
    found = tf.math.top_k((weights * q_values)[:, :-1], size).indices
    return tf.sort(found, axis=1)


def chosen_values(q_values: Tensor, slate: Tensor, chosen: Tensor) -> Tensor:
    """Returns the values [N] of what users chose.

    q_values [N, C + 1]; slate int32 [N, K]; chosen: the place on the slate, K: none, int [N].
    """
    none = tf.fill([slate.shape[0], 1], q_values.shape[1] - 1)
    items = tf.concat([tf.cast(slate, tf.int32), none], 1)  # [N, K + 1]
    return value.select(q_values, value.select(items, tf.cast(chosen, tf.int32)))
