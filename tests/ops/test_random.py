"""Random numbers: the same bits eager, graph and XLA; bijections; the distributions they claim."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import tensorflow as tf
from marked import rest
from scipy import stats

from rl.ops import random
from rl.parallel import replicas

UNLIKELY = 1e-4  # seeds are fixed: a p-value below it is a defect, not bad luck

DRAWS = {
    "uniform": lambda seed: random.uniform(seed, [1000]),
    "randint": lambda seed: random.randint(seed, [1000], 10),
    "randint of a tensor": lambda seed: random.randint(seed, [1000], tf.constant(2**31 - 1)),
    "places": lambda seed: random.places(
        seed, tf.cast(tf.reshape(tf.range(90), [3, 30]) % 7 > 2, tf.float32), 50
    ),
    "permutation of a power of two": lambda seed: random.permutation(seed, 256),
    "permutation": lambda seed: random.permutation(seed, 100),
    "fold_in": lambda seed: random.fold_in(seed, 123456),
    "fold_in of an int64 tensor": lambda seed: random.fold_in(seed, tf.constant(7, tf.int64)),
    "split": lambda seed: tf.stack(random.split(seed, 5)),
    "split_array": lambda seed: random.split_array(seed, [3, 4]),
}


@pytest.mark.parametrize("name", DRAWS)
def test_eager_graph_and_xla_draw_the_same_bits(name):
    seed = random.key(2**40 + 17)
    eager = DRAWS[name](seed).numpy()
    for jit_compile in (False, True):
        compiled = tf.function(DRAWS[name], jit_compile=jit_compile, autograph=False)(seed).numpy()
        assert compiled.dtype == eager.dtype
        np.testing.assert_array_equal(compiled, eager)


@pytest.mark.parametrize("name", DRAWS)
def test_another_seed_draws_other_numbers(name):
    assert (DRAWS[name](random.key(0)).numpy() != DRAWS[name](random.key(1)).numpy()).any()


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: random.normal(seed, [1000]),
        lambda seed: random.gumbel(seed, [1000]),
        lambda seed: random.uniform(seed, [1000], -3.0, 7.0),
    ],
    ids=["normal", "gumbel", "uniform in a range"],
)
def test_numbers_with_arithmetic_are_the_same_to_rounding_eager_and_compiled(draw):
    seed = random.key(3)
    for jit_compile in (False, True):
        compiled = tf.function(draw, jit_compile=jit_compile, autograph=False)(seed)
        np.testing.assert_allclose(compiled, draw(seed), rtol=1e-4, atol=1e-5)


def test_keys_of_large_seeds_differ():
    seeds = [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**61]
    assert len({tuple(random.key(seed).numpy()) for seed in seeds}) == len(seeds)


def test_folded_and_split_seeds_are_all_different():
    seed = random.key(5)
    seeds = [random.fold_in(seed, i) for i in range(200)] + random.split(seed, 200)
    assert len({tuple(each.numpy()) for each in seeds}) == 400


def test_uniform_fills_its_range_evenly():
    x = random.uniform(random.key(1), [100_000]).numpy()
    assert x.min() >= 0.0 and x.max() < 1.0
    assert stats.kstest(x, "uniform").pvalue > UNLIKELY
    y = random.uniform(random.key(2), [100_000], -3.0, 7.0).numpy()
    assert y.min() >= -3.0 and y.max() < 7.0
    assert stats.kstest(y, "uniform", (-3.0, 10.0)).pvalue > UNLIKELY


def test_normal_is_standard_normal():
    assert stats.kstest(random.normal(random.key(1), [100_000]).numpy(), "norm").pvalue > UNLIKELY


def test_gumbel_is_standard_gumbel():
    assert stats.kstest(random.gumbel(random.key(1), [100_000]).numpy(), "gumbel_r").pvalue > UNLIKELY


@pytest.mark.parametrize("maxval", [1, 2, 3, 10, 1000])
def test_randint_is_even_over_its_range(maxval):
    x = random.randint(random.key(maxval), [200 * maxval], maxval).numpy()
    assert x.dtype == np.int32 and x.min() >= 0 and x.max() < maxval
    assert maxval == 1 or stats.chisquare(np.bincount(x, minlength=maxval)).pvalue > UNLIKELY


def test_places_are_even_over_those_of_a_row_that_may_be_chosen():
    mask = np.array([[0, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 0]], np.float32)
    found = random.places(random.key(0), tf.constant(mask), 6_000).numpy()
    assert found.dtype == np.int32
    for row, allowed in zip(found, mask, strict=True):
        counts = np.bincount(row, minlength=6)
        assert len(counts) == 6 and not counts[allowed == 0].any()
        assert allowed.sum() == 1 or stats.chisquare(counts[allowed > 0]).pvalue > UNLIKELY
    assert (
        random.places(random.key(0), tf.zeros([1, 6]), 2).numpy().max() == 5
    )  # within the row, all the same


def test_randint_reaches_the_largest_range():
    x = random.randint(random.key(0), [100_000], 2**31 - 1).numpy()
    assert x.min() >= 0
    assert stats.kstest(x / (2**31 - 1), "uniform").pvalue > UNLIKELY


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 64, 100, 128, 1000, 1024, 2048, 4097, 8192])
def test_a_permutation_holds_each_number_once(n):
    for seed in range(3):
        order = random.permutation(random.key(seed), n).numpy()
        assert order.dtype == np.int32
        np.testing.assert_array_equal(np.sort(order), np.arange(n))


def many_permutations(n, count=6000):
    """[count, n]: permutations of as many seeds."""
    seeds = random.split_array(random.key(n), [count])

    @tf.function(autograph=False)
    def draw():
        return tf.map_fn(lambda seed: random.permutation(seed, n), seeds, parallel_iterations=1)

    return draw().numpy()


@pytest.mark.parametrize("n", [2, 6, 8, *rest(4, 16, 32)])
def test_every_number_is_at_every_position_equally_often(n):
    orders = many_permutations(n)
    counts = np.stack([np.bincount(orders[:, place], minlength=n) for place in range(n)])  # [place, number]
    expected = len(orders) / n
    statistic = ((counts - expected) ** 2 / expected).sum()
    # rows and columns have fixed sums: (n - 1)^2 degrees of freedom
    assert stats.chi2.sf(statistic * (n - 1) / n, (n - 1) ** 2) > UNLIKELY


def test_all_orders_of_four_are_equally_likely():
    names = {order: i for i, order in enumerate(permutations(range(4)))}
    counts = np.bincount([names[tuple(order)] for order in many_permutations(4)], minlength=24)
    assert stats.chisquare(counts).pvalue > UNLIKELY


def test_neighbours_in_a_permutation_of_a_power_of_two_are_unrelated():
    orders = many_permutations(8)
    pairs = np.bincount(orders[:, 0] * 8 + orders[:, 1], minlength=64).reshape(8, 8)
    assert (np.diag(pairs) == 0).all()
    assert stats.chisquare(pairs[~np.eye(8, dtype=bool)]).pvalue > UNLIKELY


ROWS = {
    "uniform": lambda seed, count: random.uniform(seed, [count, 2], -1.0, 3.0),
    "normal": lambda seed, count: random.normal(seed, [count, 2]),
    "gumbel": lambda seed, count: random.gumbel(seed, [count]),
    "randint": lambda seed, count: random.randint(seed, [count, 2], 1000),
    "fold_in": lambda seed, count: random.normal(random.fold_in(seed, 3), [count]),
    "split": lambda seed, count: tf.stack(
        [random.normal(each, [count]) for each in random.split(seed, 2)], 1
    ),
}


@pytest.fixture
def learner():
    """`learner(rank, of)`: this process is one of several, until the test's end."""
    yield lambda rank, of: replicas.join(replicas.Group(of, rank))
    replicas.join(replicas.Group())


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(("learners", "microbatches"), [(1, 3), (2, 1), (2, 3)])
def test_learners_and_microbatches_together_draw_what_one_would_for_the_whole_batch(
    learner, name, learners, microbatches
):
    whole = ROWS[name](random.rows(random.key(4)), 12)
    size = 12 // (learners * microbatches)
    drawn = []
    for rank in range(learners):
        learner(rank, learners)

        @tf.function(autograph=False)
        def parts():
            array = tf.TensorArray(whole.dtype, microbatches, element_shape=[size, *whole.shape[1:]])

            def body(i, array):
                with random.microbatch(i, microbatches):
                    return i + 1, array.write(i, ROWS[name](random.rows(random.key(4)), size))

            return tf.while_loop(lambda i, _: i < microbatches, body, (0, array))[1].concat()

        drawn.append(parts())
    np.testing.assert_allclose(tf.concat(drawn, 0), whole, rtol=1e-5)


def test_after_its_microbatches_a_learner_draws_for_the_whole_batch_again():
    seed = random.key(1)
    with pytest.raises(ValueError, match="a mistake"), random.microbatch(0, 2):
        assert isinstance(random.rows(seed), random.Rows)
        raise ValueError("a mistake")
    assert random.rows(seed) is seed


def test_a_noise_tape_notes_the_draws_and_hands_out_its_inputs():
    tape = random.NoiseTape()
    first, second = random.split(random.fold_in(tape, 3), 2)
    assert random.uniform(first, [2, 3]).shape == (2, 3)
    assert random.randint(second, [4], 5).dtype == tf.int32
    random.normal(first, [1])
    assert tape.wanted == [("uniform", (2, 3), 0), ("randint", (4,), 5), ("normal", (1,), 0)]
    filled = random.NoiseTape([tf.constant([0.25]), tf.constant([3])])
    np.testing.assert_allclose(random.uniform(filled, [1], -1.0, 1.0), [-0.5])
    np.testing.assert_array_equal(random.randint(filled, [1], 5), [3])


@pytest.mark.parametrize("concentration", [0.03, 0.3, 2.0])
def test_dirichlet_shares_are_beta_distributed_over_the_places_asked_for(concentration):
    among = tf.constant([[True, True, False, True]] * 4000)
    shares = random.dirichlet(random.key(5), among, concentration).numpy()
    assert (shares[:, 2] == 0.0).all()
    np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-5)
    for place in (0, 1, 3):
        share = shares[:, place].astype(np.float64)
        # float32 has nothing between shares near 0 or 1 and these: what is there is compared by its share.
        within = (share > 1e-3) & (share < 1.0 - 1e-3)
        beta = stats.beta(concentration, 2.0 * concentration)
        expected = beta.cdf(1.0 - 1e-3) - beta.cdf(1e-3)
        assert stats.binomtest(int(within.sum()), 4000, expected).pvalue > UNLIKELY
        low, width = beta.cdf(1e-3), expected
        cut = lambda x, low=low, width=width, beta=beta: (beta.cdf(x) - low) / width  # noqa: E731
        assert stats.kstest(share[within], cut).pvalue > UNLIKELY
