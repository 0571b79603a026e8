"""The memory of sequences: which pieces of what was stored it may give, how often, and with which state."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from marked import rest

from rl.errors import UsageError
from rl.memory.registry import get_memory
from rl.memory.spec import MemorySpec
from rl.ops import random
from rl.types import SequenceBatch, Trajectory

from .conftest import chi_square, make_hparams, random_rows, split_rows

STEP = tf.constant(0, tf.int64)
# rollout_length, burn_in, unroll_length: overlapping by half, by a length that no rollout divides, rollouts
# that hold a whole sequence, one-step rollouts
SHAPES = [(4, 4, 4), (5, 3, 8), (9, 2, 6), (1, 0, 3)]


def make_memory(shape=(4, 4, 4), num_envs=3, rollouts=6, state=None, **changes: Any) -> Any:
    period, burn_in, unroll_length = shape
    capacity = {"replay_capacity": rollouts * period * num_envs}
    prioritized = changes.pop("prioritized", True)
    hparams = make_hparams(**(capacity | {"batch_size": 16} | changes))
    extra = {"burn_in": burn_in, "unroll_length": unroll_length, "prioritized": prioritized}
    hparams = types.SimpleNamespace(**vars(hparams), **extra)
    box = gymnasium.spaces.Box(-np.inf, np.inf, [1])
    state = {"row": tf.zeros([num_envs]), "env": (tf.zeros([num_envs, 2]),)} if state is None else state
    return get_memory("sequence")(
        MemorySpec(box, gymnasium.spaces.Discrete(100), num_envs, period, state), hparams
    )


class Stored:
    """A long random trajectory, cut in rollouts whose state tells row and environment of their start."""

    def __init__(self, shape: tuple[int, int, int], rollouts: int, num_envs: int = 3, seed: int = 0):
        self.period, self.length = shape[0], shape[1] + shape[2]
        whole = random_rows(np.random.default_rng(seed), rollouts * self.period, num_envs)
        self.whole = tf.nest.map_structure(lambda x: x.numpy(), whole)
        self.num_envs = num_envs
        env = tf.range(num_envs, dtype=tf.float32)
        self.rollouts = [
            part._replace(
                recurrent_state={
                    "row": tf.fill([num_envs], float(i * self.period)),
                    "env": (tf.stack([env, env + 0.5], 1),),
                }
            )
            for i, part in enumerate(split_rows(whole, [self.period] * rollouts))
        ]

    def begins(self, memory: Any, added: int) -> set[int]:
        """First rows of the sequences that may be drawn after `added` rollouts."""
        rows, kept = added * self.period, memory.ring.rows
        candidates = range(max(rows - kept, 0), rows, self.period)
        return {row for row in candidates if row + self.length + 1 <= rows}

    def check(self, batch: SequenceBatch) -> set[tuple[int, int]]:
        """Compares every sequence with the rows from which it must come; returns their (row, env)."""
        found = set()
        batch = tf.nest.map_structure(lambda x: x.numpy(), batch)
        state = batch.trajectory.recurrent_state
        for n in range(batch.index.shape[0]):
            row, env = int(state["row"][n]), int(state["env"][0][n, 0])
            assert float(state["env"][0][n, 1]) == env + 0.5
            for name in ("observation", "action", "reward", "terminated", "truncated", "mask"):
                piece = getattr(self.whole, name)[row : row + self.length + (name == "observation"), env]
                np.testing.assert_array_equal(getattr(batch.trajectory, name)[:, n], piece, err_msg=name)
            found.add((row, env))
        return found


@pytest.mark.parametrize("shape", [SHAPES[1], *rest(*((each,) for each in (SHAPES[0], *SHAPES[2:])))])
def test_sequences_are_what_was_stored_whole_and_behind_the_write_head(shape) -> None:
    stored, memory = Stored(shape, 20), make_memory(shape)
    sample = xla(lambda seed: memory.sample(seed, STEP))
    seen_overwritten = False
    for added, rollout in enumerate(stored.rollouts, start=1):
        memory.add(rollout)
        memory.check_valid()
        begins = stored.begins(memory, added)
        assert int(memory.size()) == len(begins) * stored.period * stored.num_envs
        assert bool(memory.can_sample()) == bool(begins)
        if not begins:
            np.testing.assert_array_equal(sample(random.key(added)).mask, np.zeros(16))
            continue
        found = set()
        for draw in range(2 if added % 5 else 12):
            batch = sample(random.key(100 * added + draw))
            np.testing.assert_array_equal(batch.mask, np.ones(16))
            found |= stored.check(batch)
        possible = {(row, env) for row in begins for env in range(3)}
        assert found <= possible
        assert added % 5 or found == possible
        seen_overwritten |= 0 not in begins
    assert seen_overwritten


def test_nothing_is_drawn_before_the_observation_after_the_last_step_is_stored(compiled) -> None:
    stored, memory = Stored((4, 4, 4), 3), make_memory()
    sample = compiled(lambda seed: memory.sample(seed, STEP))
    for rollout in stored.rollouts[:2]:  # eight steps of a sequence of eight, but not the ninth observation
        memory.add(rollout)
        batch = sample(random.key(0))
        assert not bool(memory.can_sample())
        np.testing.assert_array_equal(batch.mask, np.zeros(16))
        np.testing.assert_array_equal(batch.sample_weight, np.zeros(16))
        assert all(np.isfinite(each).all() for each in tf.nest.flatten(batch))
    memory.add(stored.rollouts[2])
    batch = sample(random.key(0))
    assert bool(memory.can_sample()) and stored.check(batch) <= {(0, env) for env in range(3)}
    np.testing.assert_array_equal(batch.sample_weight, np.ones(16))


def test_networks_without_state_need_none() -> None:
    stored, memory = Stored((4, 4, 4), 5), make_memory(state=())
    for rollout in stored.rollouts:
        memory.add(rollout._replace(recurrent_state=()))
    assert memory.sample(random.key(0), STEP).trajectory.recurrent_state == ()
    assert not [name for name in memory.variables if name.startswith("recurrent_state")]


def filled_memory(**changes: Any) -> tuple[Any, Stored]:
    """15 rollouts in a memory of 9, of which 7 open complete sequences."""
    stored, memory = Stored((4, 4, 4), 15), make_memory(rollouts=9, **changes)
    for rollout in stored.rollouts:
        memory.add(rollout)
    return memory, stored


def leaves(memory: Any) -> np.ndarray:
    return memory.tree.leaves()


def may_be_drawn(memory: Any) -> np.ndarray:
    """bool [M * B]: all but the newest two rollouts, whose sequences are not complete."""
    newest = int(memory.ring.position) // memory.period - 1
    rollout = np.arange(memory.tree.capacity) // memory.num_envs
    return ~np.isin(rollout, [(newest - 1) % memory.rollouts, newest % memory.rollouts])


def batch_of(index: Any) -> SequenceBatch:
    return SequenceBatch((), (), tf.cast(index, tf.int32), ())


def set_priorities(memory: Any, seed: int) -> np.ndarray:
    """Gives every sequence a random priority; returns the probabilities that must follow (exponent 0.5)."""
    priorities = np.random.default_rng(seed).random(memory.tree.capacity).astype(np.float32) ** 3 * 5
    memory.update_priorities(batch_of(np.arange(memory.tree.capacity)), tf.constant(priorities))
    leaf = np.sqrt(priorities.astype(np.float64) + 1e-6) * may_be_drawn(memory)
    return leaf / leaf.sum()


def counted(memory: Any, draws: int) -> np.ndarray:
    """How often each sequence is drawn in batches of one: strata would hide correlated errors."""
    sample = xla(lambda seeds: tf.map_fn(lambda s: memory.sample(s, STEP).index[0], seeds, tf.int32))
    seeds = tf.stack([tf.range(draws), tf.fill([draws], 5)], 1)
    return np.bincount(sample(seeds).numpy(), minlength=memory.tree.capacity)


def test_sequences_are_drawn_in_proportion_to_their_priorities() -> None:
    memory, _ = filled_memory(batch_size=1)
    probabilities = set_priorities(memory, 1)
    memory.check_valid()
    assert abs(chi_square(counted(memory, 20_000), probabilities)) < 4


@pytest.mark.parametrize("off", [{"priority_exponent": 0.0}, {"prioritized": False}])
def test_without_priorities_all_sequences_are_equally_likely(off) -> None:
    memory, _ = filled_memory(batch_size=1, **off)
    set_priorities(memory, 1)
    memory.check_valid()
    valid = may_be_drawn(memory)
    assert valid.sum() == 21
    np.testing.assert_array_equal(leaves(memory), valid)
    assert abs(chi_square(counted(memory, 10_000), valid / valid.sum())) < 4


def test_importance_weights_follow_the_formula(compiled) -> None:
    memory, _ = filled_memory()
    probabilities = set_priorities(memory, 2)
    sample, count = compiled(lambda seed, step: memory.sample(seed, step)), may_be_drawn(memory).sum()
    for step, beta in ((0, 0.4), (50, 0.7), (100, 1.0), (10**6, 1.0)):
        batch = sample(random.key(3), tf.constant(step, tf.int64))
        weight = (count * probabilities[batch.index.numpy()]) ** -beta
        np.testing.assert_allclose(batch.sample_weight, weight / weight.max(), rtol=1e-4, err_msg=str(step))


def test_new_sequences_get_the_largest_priority_so_far(compiled) -> None:
    stored, memory = Stored((4, 4, 4), 9, num_envs=1), make_memory(num_envs=1)
    add = compiled(lambda trajectory: memory.add(trajectory))
    for rollout in stored.rollouts[:4]:
        add(rollout)
    np.testing.assert_array_equal(leaves(memory), [1, 1, 0, 0, 0, 0])
    memory.update_priorities(batch_of([0, 1]), tf.constant([9.0, 4.0]))
    np.testing.assert_allclose(leaves(memory), [3, 2, 0, 0, 0, 0], rtol=1e-6)
    memory.update_priorities(batch_of([0]), tf.constant([1.0]))  # the largest is remembered
    add(stored.rollouts[4])
    np.testing.assert_allclose(leaves(memory), [1, 2, 3, 0, 0, 0], rtol=1e-5)
    add(stored.rollouts[5])
    np.testing.assert_allclose(leaves(memory), [1, 2, 3, 3, 0, 0], rtol=1e-5)
    add(stored.rollouts[6])  # over rollout 0
    np.testing.assert_allclose(leaves(memory), [0, 2, 3, 3, 3, 0], rtol=1e-5)
    add(stored.rollouts[7])
    np.testing.assert_allclose(leaves(memory), [0, 0, 3, 3, 3, 3], rtol=1e-5)
    memory.check_valid()


def test_priorities_of_a_batch(compiled) -> None:
    memory, _ = filled_memory()
    place = np.flatnonzero(may_be_drawn(memory))[:6]
    closed = np.flatnonzero(~may_be_drawn(memory))[:1]
    update = compiled(lambda index, priorities: memory.update_priorities(batch_of(index), priorities))
    index = np.concatenate([place, place[:1], closed]).astype(np.int32)
    update(index, tf.constant([4, -9, 0, np.nan, np.inf, 3e38, 1, 5], tf.float32))
    leaf = leaves(memory)
    # the larger of a duplicate's; the absolute value; never 0; not finite: as before; huge but finite;
    # not complete: stays 0
    np.testing.assert_allclose(leaf[place[:5]], [2, 3, 1e-3, 1, 1], rtol=1e-5)
    np.testing.assert_allclose(leaf[place[5]], np.sqrt(3e38), rtol=1e-3)
    assert leaf[closed] == 0
    memory.check_valid()


def train(memory: Any, stored: Stored, compile_with: Callable[[Any], Any], start: int, rounds: int) -> list:
    """`rounds` of add, sample, update; every random choice follows from the round's number."""

    def step(seed: tf.Tensor, trajectory: Trajectory) -> SequenceBatch:
        memory.add(trajectory)
        batch = memory.sample(seed, tf.cast(seed[0], tf.int64))
        memory.update_priorities(batch, tf.abs(batch.trajectory.reward[0]))
        return batch

    step = compile_with(step)
    return [step(random.key(i), stored.rollouts[i]) for i in range(start, start + rounds)]


def eager(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def xla(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, jit_compile=True, autograph=False)


def assert_same(ones: list, others: list, rtol: float = 0.0) -> None:
    for one, other in zip(ones, others, strict=True):
        for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
            np.testing.assert_allclose(tf.cast(a, tf.float32), tf.cast(b, tf.float32), rtol=rtol)


@pytest.mark.parametrize("shape", [SHAPES[0], *rest((SHAPES[1],))])
def test_eager_graph_and_xla_agree(shape) -> None:
    def run(compile_with: Callable[[Any], Any]) -> list:
        memory = make_memory(shape)
        batches = train(memory, Stored(shape, 14), compile_with, 0, 14)
        memory.check_valid()
        return batches

    expected = run(eager)
    assert_same(expected, run(functools.partial(tf.function, autograph=False)), 1e-5)
    assert_same(expected, run(xla), 1e-5)


def test_a_compiled_while_loop_equals_single_calls() -> None:
    stored = Stored((4, 4, 4), 14)
    loop_memory, memory = make_memory(), make_memory()
    stacked = tf.nest.map_structure(lambda *each: tf.stack(each), *stored.rollouts)

    def one(memory: Any, i: tf.Tensor) -> tf.Tensor:
        memory.add(tf.nest.map_structure(lambda each: each[i], stacked))
        batch = memory.sample(random.fold_in(random.key(4), i), tf.cast(i, tf.int64))
        memory.update_priorities(batch, tf.abs(batch.trajectory.reward[0]))
        return batch.index

    @tf.function(jit_compile=True, autograph=False)
    def loop() -> tf.Tensor:
        found = tf.zeros([14, 16], tf.int32)

        def body(i: tf.Tensor, found: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, tf.tensor_scatter_nd_update(found, [[i]], one(loop_memory, i)[None])

        return tf.while_loop(lambda i, _: i < 14, body, (tf.constant(0), found), maximum_iterations=14)[1]

    np.testing.assert_array_equal(loop(), [one(memory, tf.constant(i)) for i in range(14)])
    loop_memory.check_valid()


@pytest.mark.parametrize("shape", SHAPES[:2])
def test_a_restored_memory_goes_on_exactly(shape) -> None:
    stored, memory, restored = Stored(shape, 16), make_memory(shape), make_memory(shape)
    train(memory, stored, eager, 0, 9)
    saved = {key: variable.numpy() for key, variable in memory.variables.items()}
    expected = train(memory, stored, eager, 9, 7)
    assert list(restored.variables) == list(saved)
    for key, variable in restored.variables.items():
        variable.assign(saved[key])
    restored.check_valid()
    assert_same(expected, train(restored, stored, eager, 9, 7))


def test_a_cut_ends_the_running_episodes_where_the_environments_start_anew() -> None:
    memory, stored = make_memory(num_envs=1), Stored((4, 4, 4), 5, num_envs=1, seed=1)
    never = tf.zeros([4, 1], tf.bool)
    steps = [
        each._replace(terminated=never, truncated=never, mask=tf.ones([4, 1])) for each in stored.rollouts
    ]
    memory.add(steps[0])
    memory.cut()
    mask = tf.constant([0.0, 1, 1, 1])[:, None]  # the environments were reset
    memory.add(steps[1]._replace(mask=mask, reward=steps[1].reward * mask))
    memory.add(steps[2])
    memory.check_valid()
    found = memory.sample(random.key(0), STEP).trajectory
    np.testing.assert_array_equal(found.truncated[:, 0], [False] * 3 + [True] + [False] * 4)
    np.testing.assert_array_equal(found.mask[:, 0], [1, 1, 1, 1, 0, 1, 1, 1])
    assert not found.terminated.numpy().any()


def test_a_rollout_of_another_length_is_refused() -> None:
    memory = make_memory((4, 4, 4))
    with pytest.raises(ValueError, match="cannot add 5 steps: rollouts have 4"):
        memory.add(Stored((5, 3, 8), 1).rollouts[0])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda m: m.tree.set(tf.constant([int(m.ring.position) // 4 * 3 - 1]), tf.constant([1.0])),
            "not comp",
        ),
        (
            lambda m: m.tree.set(tf.constant([int(m.ring.position) // 4 * 3]), tf.constant([0.0])),
            "though it is",
        ),
        (
            lambda m: m.variables["recurrent_state/row"].assign(tf.fill([27], np.nan)),
            "row that is not finite",
        ),
        (lambda m: m.variables["largest_leaf"].assign(0.5), "largest priority 0.5 is below"),
    ],
)
def test_broken_state_is_named(spoil, message) -> None:
    memory, _ = filled_memory()
    memory.check_valid()
    spoil(memory)
    with pytest.raises(ValueError, match=message):
        memory.check_valid()


def test_rows_that_make_no_whole_rollouts_are_named() -> None:
    memory = make_memory()
    memory.variables["written"].assign(3)
    with pytest.raises(ValueError, match="position 3, 3 rows filled: no multiples of 4"):
        memory.check_valid()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # a sequence of 8 steps and one observation more: 3 rollouts of 4 steps and 3 environments
        ({"replay_capacity": 35}, "replay_capacity 35 is too small.*need 36 or more"),
        ({"min_replay_size": 49}, "min_replay_size 49 is never reached.*at most 48"),
        ({"priority_epsilon": 0.0}, "priority_epsilon is 0"),
        ({"replay_capacity": 2**30}, "stay below 2.30"),
    ],
)
def test_hparams_that_do_not_fit_are_refused(changes, message) -> None:
    make_memory(replay_capacity=36)
    make_memory(min_replay_size=48)
    with pytest.raises(UsageError, match=message):
        make_memory(**changes)


def test_late_priorities_pass_by_sequences_that_have_been_overwritten_since() -> None:
    memory = make_memory(rollouts=4, num_envs=1, priority_exponent=1.0)
    stored = Stored((4, 4, 4), 6, num_envs=1)
    for rollout in stored.rollouts[:4]:
        memory.add(rollout)
    written = memory.written()  # sequences 0 and 1 are whole: they span three rollouts
    for rollout in stored.rollouts[4:]:
        memory.add(rollout)  # over 0, then 1; 2 and 3 become whole
    memory.update_priorities(batch_of([0, 1, 2, 3]), tf.constant([50.0, 50.0, 7.0, 8.0]), written)
    np.testing.assert_allclose(memory.tree.leaves(), [0.0, 0.0, 7.0, 8.0], rtol=1e-5)
    memory.add(stored.rollouts[0])  # over 2; the one in place 0 becomes whole
    memory.update_priorities(batch_of([0, 1]), tf.constant([50.0, 50.0]), written)
    np.testing.assert_allclose(memory.tree.leaves(), [8.0, 0.0, 0.0, 8.0], rtol=1e-5)
