"""Ranks among the last numbers: what is kept, and NumPy's percentiles."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops import ranks


def test_the_last_numbers_are_kept() -> None:
    last = ranks.Last(tf.zeros([3]), tf.constant(0))
    last = ranks.added(last, tf.constant([5.0, 9.0, 6.0]), tf.constant([True, False, True]))
    assert last.count == 2 and last.values.numpy()[:2].tolist() == [5.0, 6.0]
    last = ranks.added(last, tf.constant([7.0, 8.0]), tf.constant([True, True]))
    assert sorted(last.values.numpy()) == [6.0, 7.0, 8.0] and last.count == 4
    many = ranks.added(last, tf.range(10.0), tf.ones([10], tf.bool))  # more than there is room for
    assert sorted(many.values.numpy()) == [7.0, 8.0, 9.0] and many.count == 14
    none = ranks.added(many, tf.range(10.0), tf.zeros([10], tf.bool))
    assert sorted(none.values.numpy()) == [7.0, 8.0, 9.0] and none.count == 14


def test_quantiles_are_numpys() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=20).astype(np.float32)
    for count in (1, 2, 7, 20, 33):
        last = ranks.Last(tf.constant(values), tf.constant(count))
        for share in (0.0, 0.3, 0.75, 1.0):
            expected = np.quantile(values[: min(count, 20)], share, method="lower")
            assert ranks.quantile(last, share) == expected
    assert ranks.quantile(ranks.Last(tf.zeros([4]), tf.constant(0)), 0.75) == tf.float32.min
