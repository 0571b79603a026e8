"""The samplers: what they may draw, how often, and that all ways of running them agree."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from marked import few, rest

from rl.errors import UsageError
from rl.memory.priorities import Priorities
from rl.memory.registry import registry
from rl.ops import random
from rl.parallel import replicas
from rl.types import Batch

from .conftest import chi_square, make_hparams, make_memory, random_rows, rows, split_rows

STEP = tf.constant(0, tf.int64)
REPLAYS = ["uniform", "prioritized"]


def drawn(memory: Any, draws: int) -> np.ndarray:
    """How often each place of the ring is drawn in `draws` batches (masked slots left out)."""
    by_xla = draws > 1000  # few draws do not make up for the time that it compiles
    sample = tf.function(lambda seed: memory.sample(seed, STEP), jit_compile=by_xla, autograph=False)
    counts = np.zeros(memory.ring.places, np.int64)
    for seed in range(draws):
        batch = sample(random.key(seed))
        counts += np.bincount(batch.index.numpy()[batch.mask.numpy() > 0], minlength=len(counts))
    return counts


def test_the_registry_knows_the_memories() -> None:
    assert {"rollout", "uniform", "prioritized"} <= set(registry.names())


def test_rollout_keeps_nothing() -> None:
    memory = make_memory("rollout")
    memory.add(rows(0, "..."))
    memory.check_valid()
    assert memory.variables == {} and int(memory.size()) == 0 and not bool(memory.can_sample())
    with pytest.raises(TypeError, match="take the trajectory itself"):
        memory.sample(random.key(0), STEP)


@pytest.mark.parametrize("name", REPLAYS)
@pytest.mark.parametrize("n_step", [3, *rest(1)])
def test_only_transitions_behind_the_write_head_are_drawn(name: str, n_step: int) -> None:
    memory = make_memory(name, n_step=n_step, batch_size=16)
    memory.add(rows(0, "..Tr..."))  # places 0-6, 3 is an autoreset step
    possible = {0, 1, 2, 4, 5, 6} - set(range(7 - n_step, 7))
    assert set(np.flatnonzero(drawn(memory, 30))) == possible
    memory.add(rows(7, "........C"))  # rows 12-15 are in places 0-3, the oldest row is in place 4
    assert int(memory.ring.position) == 4
    assert set(np.flatnonzero(drawn(memory, 60))) == set(range(12)) - {0, 1, 2, 3} | set(range(4 - n_step))
    memory.check_valid()


@pytest.mark.parametrize("name", REPLAYS)
def test_nothing_is_drawn_before_n_rows_have_followed(name: str, compiled) -> None:
    memory = make_memory(name, n_step=3)
    sample = compiled(lambda seed: memory.sample(seed, STEP))
    for row in range(4):
        batch = sample(random.key(row))
        assert int(memory.size()) == 0 and not bool(memory.can_sample())
        np.testing.assert_array_equal(batch.mask, np.zeros(4))
        np.testing.assert_array_equal(batch.sample_weight, np.zeros(4))
        assert all(np.isfinite(each).all() for each in tf.nest.flatten(batch))
        memory.add(rows(row, "."))
    assert int(memory.size()) == 1 and bool(memory.can_sample())
    batch = sample(random.key(9))
    np.testing.assert_array_equal(batch.index, np.zeros(4))
    np.testing.assert_array_equal(batch.mask, np.ones(4))


def test_can_sample_from_min_replay_size_on() -> None:
    memory = make_memory("uniform", num_envs=2, min_replay_size=5)
    trajectory = random_rows(np.random.default_rng(0), 6, 2)
    seen = []
    for part in split_rows(trajectory, [1] * 6):
        memory.add(part)
        seen.append((int(memory.size()), bool(memory.can_sample())))
    assert seen == [(0, False), (2, False), (4, False), (6, True), (8, True), (10, True)]
    memory.add(random_rows(np.random.default_rng(0), 1, 2))
    assert int(memory.size()) == 10


def filled_memory(name: str, **hparams: Any) -> Any:
    """Three environments, 40 rows, several times overwritten, with autoreset steps in between."""
    settings = dict(replay_capacity=120, batch_size=64, n_step=2) | hparams
    memory = make_memory(name, num_envs=3, rollout_length=7, **settings)
    for part in split_rows(random_rows(np.random.default_rng(7), 140, 3), [7] * 20):
        memory.add(part)
    memory.check_valid()
    return memory


def may_be_drawn(memory: Any) -> np.ndarray:
    """bool [L], derived anew from the stored rows."""
    valid = (memory.variables["flags"].numpy() & 4) != 0
    newest = (int(memory.ring.position) - 1 - np.arange(memory.n_step)) % memory.ring.rows
    valid.reshape(memory.ring.rows, -1)[newest] = False
    return valid


def test_uniform_draws_all_transitions_equally_often() -> None:
    memory = filled_memory("uniform")
    valid = may_be_drawn(memory)
    assert 10 < (~valid).sum() < 60
    assert abs(chi_square(drawn(memory, 1500), valid / valid.sum())) < 4


def test_uniform_draws_transitions_between_periodic_autoresets_equally_often() -> None:
    memory = make_memory("uniform", replay_capacity=40, batch_size=64)
    for first in range(0, 40, 4):
        memory.add(rows(first, "r..T" if first else "...T"))
    valid = may_be_drawn(memory)
    counts = drawn(memory, 1500)
    assert abs(chi_square(counts, valid / valid.sum())) < 4
    assert counts.sum() > 0.99 * 64 * 1500  # about one slot in 256 is empty


def set_priorities(memory: Any, seed: int) -> np.ndarray:
    """Gives every place a random priority; returns the probabilities [L] that must follow (exponent 0.5)."""
    priorities = np.random.default_rng(seed).random(memory.ring.places).astype(np.float32) ** 3 * 5
    index = tf.range(memory.ring.places)
    memory.update_priorities(empty_batch(index), tf.constant(priorities))
    leaf = np.sqrt(priorities.astype(np.float64) + 1e-6) * may_be_drawn(memory)
    return leaf / leaf.sum()


def empty_batch(index: tf.Tensor) -> Batch:
    return Batch((), (), (), (), (), (), index=index, mask=())


def test_prioritized_draws_in_proportion_to_the_priorities() -> None:
    memory = filled_memory("prioritized", batch_size=1)  # one a draw: strata would hide correlated errors
    probabilities = set_priorities(memory, 1)
    memory.check_valid()
    sample = tf.function(
        lambda seeds: tf.map_fn(lambda seed: memory.sample(seed, STEP).index[0], seeds, tf.int32),
        jit_compile=True,
        autograph=False,
    )
    seeds = tf.stack([tf.range(60_000), tf.fill([60_000], 5)], 1)
    counts = np.bincount(sample(seeds).numpy(), minlength=memory.ring.places)
    assert abs(chi_square(counts, probabilities)) < 4


def test_importance_weights_follow_the_formula(compiled) -> None:
    memory = filled_memory("prioritized")
    probabilities = set_priorities(memory, 2)
    sample, count = compiled(lambda seed, step: memory.sample(seed, step)), may_be_drawn(memory).sum()
    for step, beta in ((0, 0.4), (50, 0.7), (100, 1.0), (10**6, 1.0)):
        batch = sample(random.key(3), tf.constant(step, tf.int64))
        weight = (count * probabilities[batch.index.numpy()]) ** -beta
        np.testing.assert_allclose(batch.sample_weight, weight / weight.max(), rtol=1e-4, err_msg=str(step))
        np.testing.assert_array_equal(batch.mask, np.ones(64))


def leaf_of(memory: Any) -> np.ndarray:
    return memory.variables["sum_tree/level_0"].numpy()[: memory.ring.places]


def test_new_rows_get_the_largest_priority_once_they_can_be_sampled(compiled) -> None:
    memory = make_memory("prioritized", n_step=2)
    add = compiled(lambda trajectory: memory.add(trajectory))
    add(rows(0, ".."))
    np.testing.assert_array_equal(leaf_of(memory), np.zeros(12))
    add(rows(2, "Tr"))
    np.testing.assert_array_equal(leaf_of(memory), [1, 1] + [0] * 10)
    memory.update_priorities(empty_batch(tf.constant([0, 1])), tf.constant([9.0, 4.0]))
    np.testing.assert_allclose(leaf_of(memory)[:2], [3, 2], rtol=1e-6)
    memory.update_priorities(empty_batch(tf.constant([0])), tf.constant([1.0]))  # the largest is remembered
    add(rows(4, ".."))
    np.testing.assert_allclose(leaf_of(memory)[:6], [1, 2, 3, 0, 0, 0], rtol=1e-5)
    for first in range(6, 14, 2):  # rows 12 and 13 overwrite places 0 and 1
        add(rows(first, ".."))
    np.testing.assert_allclose(leaf_of(memory), [0, 0, 3, 0, 3, 3, 3, 3, 3, 3, 3, 3], rtol=1e-6)
    memory.check_valid()


def test_priorities_of_a_batch(compiled) -> None:
    memory = filled_memory("prioritized")
    place = np.flatnonzero(may_be_drawn(memory))[:6].astype(np.int32)
    closed = np.flatnonzero(~may_be_drawn(memory))[:1].astype(np.int32)
    update = compiled(lambda index, priorities: memory.update_priorities(empty_batch(index), priorities))
    index = np.concatenate([place, place[:1], closed])
    update(tf.constant(index), tf.constant([4, -9, 0, np.nan, np.inf, 3e38, 1, 5], tf.float32))
    leaf = leaf_of(memory)
    # the larger of a duplicate's; the absolute value; never 0; not finite: as before; huge but finite;
    # closed: stays 0
    np.testing.assert_allclose(leaf[place[:5]], [2, 3, 1e-3, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(leaf[place[5]], np.sqrt(3e38), rtol=1e-3)
    assert leaf[closed] == 0
    memory.check_valid()
    batch = compiled(lambda seed: memory.sample(seed, STEP))(random.key(0))
    assert np.isfinite(batch.sample_weight).all()


def test_priority_epsilon_must_be_positive() -> None:
    with pytest.raises(UsageError, match="priority_epsilon is 0"):
        make_memory("prioritized", priority_epsilon=0.0)


def train(memory: Any, compile_with: Callable[[Any], Any], start: int, rounds: int) -> list[Batch]:
    """`rounds` of add, sample, update; every random choice follows from the round's number."""

    def step(seed: tf.Tensor, *parts: Any) -> Batch:
        memory.add(trajectories[0]._replace(**dict(zip(names, parts, strict=True))))
        batch = memory.sample(seed, tf.cast(seed[0], tf.int64))
        memory.update_priorities(batch, tf.abs(batch.reward + batch.observation[:, 0]))
        return batch

    names = ["observation", "action", "reward", "terminated", "truncated", "mask"]
    trajectories = split_rows(random_rows(np.random.default_rng(2), 200, 3), [5] * 40)
    step = compile_with(step)
    return [step(random.key(i), *trajectories[i][:6]) for i in range(start, start + rounds)]


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def assert_equal(first: list[Batch], second: list[Batch]) -> None:
    for one, other in zip(first, second, strict=True):
        for name, a, b in zip(Batch._fields, one, other, strict=True):
            if name in (
                "sample_weight",
                "reward",
            ):  # powers and products may be rounded differently by a compiler
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("name", few(REPLAYS, ["prioritized"]))
@pytest.mark.parametrize("n_step", [3, *rest(1)])
def test_eager_graph_and_xla_agree(name: str, n_step: int) -> None:
    def run(compile_with: Callable[[Any], Any]) -> list[Batch]:
        memory = make_memory(name, 3, 5, replay_capacity=50, n_step=n_step, batch_size=16)
        batches = train(memory, compile_with, 0, 12)
        memory.check_valid()
        return batches

    expected = run(eager)
    assert_equal(expected, run(functools.partial(tf.function, autograph=False)))
    assert_equal(expected, run(lambda function: tf.function(function, jit_compile=True, autograph=False)))


@pytest.mark.parametrize("name", few(REPLAYS, ["prioritized"]))
def test_a_compiled_while_loop_equals_single_calls(name: str) -> None:
    loop_memory, memory = (make_memory(name, 3, 5, replay_capacity=50, batch_size=16) for _ in range(2))
    parts = split_rows(random_rows(np.random.default_rng(2), 60, 3), [5] * 12)
    stacked = tf.nest.map_structure(lambda *each: tf.stack(each), *parts)

    def one(memory: Any, i: tf.Tensor) -> tf.Tensor:
        memory.add(tf.nest.map_structure(lambda each: each[i], stacked))
        batch = memory.sample(random.fold_in(random.key(4), i), tf.cast(i, tf.int64))
        memory.update_priorities(batch, tf.abs(batch.reward))
        return batch.index

    @tf.function(jit_compile=True, autograph=False)
    def loop() -> tf.Tensor:
        found = tf.zeros([12, 16], tf.int32)

        def body(i: tf.Tensor, found: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, tf.tensor_scatter_nd_update(found, [[i]], one(loop_memory, i)[None])

        return tf.while_loop(lambda i, _: i < 12, body, (tf.constant(0), found), maximum_iterations=12)[1]

    np.testing.assert_array_equal(loop(), [one(memory, tf.constant(i)) for i in range(12)])
    loop_memory.check_valid()


@pytest.mark.parametrize("name", REPLAYS)
@pytest.mark.parametrize("lengths", [[1] * 60, [4] * 15, [7, 2, 11] * 3])
def test_blocks_equal_single_rows(name: str, lengths: list[int]) -> None:
    memories = []
    for parts in ([5] * 12, lengths):
        memory = make_memory(name, 3, 5, replay_capacity=50, n_step=2)
        for part in split_rows(random_rows(np.random.default_rng(9), 60, 3), parts):
            memory.add(part)
            memory.check_valid()
        memories.append(memory)
    for key, variable in memories[0].variables.items():
        np.testing.assert_array_equal(variable.numpy(), memories[1].variables[key].numpy(), err_msg=key)


@pytest.mark.parametrize("name", REPLAYS)
def test_a_restored_memory_goes_on_exactly(name: str) -> None:
    def fresh() -> Any:
        return make_memory(name, 3, 5, replay_capacity=50, n_step=2, batch_size=16)

    memory, restored = fresh(), fresh()
    train(memory, eager, 0, 10)
    saved = {key: variable.numpy() for key, variable in memory.variables.items()}
    expected = train(memory, eager, 10, 10)
    for key, variable in restored.variables.items():
        variable.assign(saved[key])
    restored.check_valid()
    for one, other in zip(expected, train(restored, eager, 10, 10), strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        ("sum_tree/level_0", "closed", 1.0, "a priority though it cannot be sampled"),
        ("sum_tree/level_0", "open", 0.0, "no priority though it can be sampled"),
        ("sum_tree/level_1", "open", 77.0, "its children sum to"),
        ("largest_leaf", None, 0.5, "largest priority 0.5 is below the tree's 1.0"),
        ("largest_leaf", None, np.nan, "largest priority nan"),
    ],
)
def test_check_valid_finds_planted_corruption(
    name: str, place: str | None, value: float, message: str
) -> None:
    memory = filled_memory("prioritized")
    if place is None:
        memory.variables[name].assign(value)
    else:
        found = int(np.flatnonzero(may_be_drawn(memory) == (place == "open"))[0])
        if name.endswith("level_0"):
            memory.tree.set(tf.constant([found]), tf.constant([value]))
        else:
            memory.variables[name].scatter_update(tf.IndexedSlices(tf.constant([value]), tf.constant([0])))
    with pytest.raises(ValueError, match=message):
        memory.check_valid()


def test_late_priorities_pass_by_what_has_been_overwritten_since() -> None:
    memory = make_memory("prioritized", replay_capacity=6, priority_exponent=1.0)
    for first in (0, 3):  # rows 0 .. 4 can be sampled
        memory.add(rows(first, "..."))
    written, batch = memory.written(), empty_batch(tf.constant([0, 1, 2, 3]))
    memory.add(rows(6, ".."))  # over rows 0 and 1: transition 6 can be sampled, 7 not yet
    memory.update_priorities(batch, tf.constant([50.0, 50.0, 7.0, 8.0]), written)
    # 1 is what a transition gets whose priority is not known yet
    np.testing.assert_allclose(memory.tree.leaves(), [1.0, 0.0, 7.0, 8.0, 1.0, 1.0], rtol=1e-5)
    memory.update_priorities(batch, tf.constant([5.0, 50.0, 6.0, 8.0]), memory.written())
    np.testing.assert_allclose(memory.tree.leaves(), [5.0, 0.0, 6.0, 8.0, 1.0, 1.0], rtol=1e-5)
    written = memory.written()
    for first in (8, 13, 18):  # more than once round
        memory.add(rows(first, "....."))
    memory.update_priorities(batch, tf.fill([4], 50.0), written)
    np.testing.assert_allclose(np.unique(memory.tree.leaves()), [0.0, 8.0], rtol=1e-5)
    memory.check_valid()


def test_sample_weights_make_up_for_the_totals_of_learners_trees(monkeypatch) -> None:
    """Each learner samples equally often from a tree of its own, of which one may hold far less priority."""
    trees: list[Priorities] = []
    least: list[Any] = []
    for total in (4.0, 80.0):
        tree = Priorities(4, make_hparams(importance_sampling_exponent=1.0), exponent=1.0)
        tree.set(tf.range(4), tf.constant([0.1, 0.2, 0.3, 0.4]) * total)
        trees.append(tree)
    arguments = random.key(0), 64, tf.constant(100)
    monkeypatch.setattr(replicas, "smallest", lambda x: least.append(x) or x)
    for tree in trees:
        tree.draw(*arguments)
    monkeypatch.setattr(replicas, "smallest", lambda _: tf.reduce_min(tf.stack(least)))
    for tree in trees:  # (N P(i))^-1 over the largest, which is that of P = 0.1 in both
        index, sample_weight, _ = tree.draw(*arguments)
        expected = 0.1 / np.array([0.1, 0.2, 0.3, 0.4])[index.numpy()]
        np.testing.assert_allclose(sample_weight, expected, rtol=1e-4)
