"""The sum-tree against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from marked import rest

from rl.memory.sum_tree import LARGEST, SumTree
from rl.ops import random

from .conftest import chi_square


def leaves(tree: SumTree) -> np.ndarray:
    return tree.variables["level_0"].numpy()[: tree.capacity]


@pytest.mark.parametrize("capacity", [1, 7, 100, *rest(2, 1000, 5000)])
def test_random_updates_with_duplicates_equal_numpy(capacity: int, compiled) -> None:
    rng = np.random.default_rng(capacity)
    tree, naive = SumTree(capacity), np.zeros(capacity, np.float32)
    update = compiled(tree.set)
    for _ in range(20):
        index = rng.integers(0, capacity, 37).astype(np.int32)
        value = (rng.random(37) * (rng.random(37) < 0.8)).astype(np.float32)
        update(tf.constant(index), tf.constant(value))
        naive[index] = 0
        np.maximum.at(naive, index, value)
        np.testing.assert_array_equal(leaves(tree), naive)
        np.testing.assert_allclose(tree.total(), naive.sum(), rtol=1e-6)
        tree.check_valid()


@pytest.mark.parametrize("capacity", [1, 7, 100, *rest(2, 1000, 5000)])
def test_ranges_that_wrap_equal_numpy(capacity: int, compiled) -> None:
    rng = np.random.default_rng(capacity)
    tree, naive = SumTree(capacity), np.zeros(capacity, np.float32)
    update = compiled(tree.set_range)
    for count in sorted({1, min(9, capacity), min(capacity, 130), capacity // 2 + 1, capacity}):
        for start in {0, capacity - 1, max(capacity - count - 1, 0), *rng.integers(0, capacity, 3).tolist()}:
            value = rng.random(count).astype(np.float32)
            update(tf.constant(start), tf.constant(value))
            naive[(start + np.arange(count)) % capacity] = value
            np.testing.assert_array_equal(leaves(tree), naive)
            tree.check_valid()


@pytest.mark.parametrize("capacity", [1, 7, 100, *rest(2, 1000, 5000)])
def test_every_positive_leaf_is_found_and_no_other(capacity: int, compiled) -> None:
    rng = np.random.default_rng(capacity)
    tree = SumTree(capacity)
    sample = compiled(lambda seed: tree.sample(seed, 256))
    for seed in range(5):
        chosen = rng.permutation(capacity)[: min(capacity, 20)]
        tree.set_range(tf.constant(0), tf.zeros([capacity]))
        tree.set(tf.constant(chosen, tf.int32), tf.ones([len(chosen)]))
        index, value = sample(random.key(seed))
        assert set(index.numpy()) == set(chosen)
        np.testing.assert_array_equal(value, np.ones(256))


def test_empty_tree_samples_value_zero(compiled) -> None:
    for capacity in (3, 1000):
        index, value = compiled(lambda seed, tree: tree.sample(seed, 8))(random.key(0), SumTree(capacity))
        np.testing.assert_array_equal(value, np.zeros(8))
        assert (index.numpy() >= 0).all() and (index.numpy() < capacity).all()


@pytest.mark.parametrize("capacity", [7, 300, *rest(5000)])
def test_samples_are_proportional_to_the_values(capacity: int) -> None:
    rng = np.random.default_rng(3)
    value = np.maximum(rng.normal(size=capacity), 0).astype(np.float32) ** 2
    tree = SumTree(capacity)
    tree.set_range(tf.constant(0), tf.constant(value))
    # One sample a draw: within a draw the strata make counts more even than chance, which a chi-square would
    # miss.
    sample = tf.function(
        lambda seeds: tf.map_fn(lambda seed: tree.sample(seed, 1)[0][0], seeds, tf.int32),
        jit_compile=True,
        autograph=False,
    )
    seeds = tf.stack([tf.range(60_000), tf.fill([60_000], 17)], 1)
    counts = np.bincount(sample(seeds).numpy(), minlength=capacity)
    assert abs(chi_square(counts, value.astype(np.float64) / value.sum(dtype=np.float64))) < 4


def test_sampling_is_stratified(compiled) -> None:
    tree = SumTree(4096)
    tree.set_range(tf.constant(0), tf.ones([4096]))
    index, _ = compiled(lambda seed: tree.sample(seed, 64))(random.key(5))
    np.testing.assert_array_equal(index.numpy() // 64, np.arange(64))  # exactly one from each 64th


@pytest.mark.slow
def test_leaves_below_the_resolution_of_float32_are_drawn_equally_often() -> None:
    # The last of 1024 strata holds 154,000 leaves, but a float32 knows only 2^14 places in it.
    capacity = 1 << 20
    value = np.ones(capacity, np.float32)
    value[0] = 150 * capacity
    tree = SumTree(capacity)
    tree.set_range(tf.constant(0), tf.constant(value))

    @tf.function(jit_compile=True, autograph=False)
    def last_stratum(seeds: tf.Tensor) -> tf.Tensor:
        return tf.map_fn(lambda seed: tree.sample(seed, 1024)[0][-1], seeds, tf.int32)

    index = last_stratum(tf.stack([tf.range(20_000), tf.fill([20_000], 3)], 1)).numpy()
    assert index.min() > capacity * (1 - 151 / 1024 * (1 + 1 / 16))  # strata keep their borders
    leaves_in_stratum = 151 * capacity / 1024
    # About 18,770 of them, where 20,000 draws meet only 11,500 of 2^14 places.
    distinct = leaves_in_stratum * (1 - np.exp(-len(index) / leaves_in_stratum))
    assert abs(len(np.unique(index)) - distinct) < 200
    for width in (8, 64, 512):
        counts = np.bincount(index % width, minlength=width)
        assert abs(chi_square(counts, np.full(width, 1 / width))) < 4


def test_values_that_are_not_finite_leave_the_leaf_as_it_was(compiled) -> None:
    tree = SumTree(100)
    update = compiled(tree.set)
    update(tf.constant([3, 4, 5]), tf.constant([1.0, 2.0, 3.0]))
    update(tf.constant([3, 4, 5]), tf.constant([np.nan, np.inf, -np.inf], tf.float32))
    np.testing.assert_array_equal(leaves(tree)[3:6], [1, 2, 3])
    update(tf.constant([3, 4, 5]), tf.constant([-1.0, 3e38, 1e-40]))
    assert leaves(tree)[3] == 0 and leaves(tree)[4] == np.float32(LARGEST)
    tree.check_valid()


def test_bad_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="between 1 and"):
        SumTree(0)
    with pytest.raises(ValueError, match="do not fit"):
        SumTree(3).set_range(tf.constant(0), tf.ones([4]))


@pytest.mark.parametrize(
    ("level", "place", "value", "message"),
    [
        ("level_0", 5, np.nan, "leaf 5 has the value nan"),
        ("level_0", 6, -1.0, "leaf 6 has the value -1"),
        ("level_0", 103, 1.0, "beyond its 100 leaves"),
        ("level_0", 17, 9.0, "node 2 of level 1"),
        ("level_1", 4, 9.0, "node 4 of level 1"),
    ],
)
def test_check_valid_finds_planted_corruption(level: str, place: int, value: float, message: str) -> None:
    tree = SumTree(100)
    tree.set_range(tf.constant(0), tf.ones([100]))
    tree.check_valid()
    tree.variables[level].scatter_update(tf.IndexedSlices(tf.constant([value]), tf.constant([place])))
    with pytest.raises(ValueError, match=message):
        tree.check_valid()
