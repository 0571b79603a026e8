"""Stacked pictures stored once each: what is read is byte for byte what storing whole stacks would give."""

from __future__ import annotations

import types

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import rest

from rl.errors import UsageError
from rl.memory.registry import get_memory
from rl.memory.ring import Ring
from rl.memory.spec import MemorySpec

from .conftest import make_hparams, random_rows, rows, split_rows

FRAMES, CHANNELS = 3, 2
PICTURE = spaces.Box(0, 255, (2, 3, FRAMES * CHANNELS), np.uint8)


def spec(space=PICTURE, envs=2, length=4, frames=FRAMES, state=()):
    return MemorySpec(space, spaces.Discrete(100), envs, length, state, frames)


def stacked(picture, mask):
    """Stacks [T, B, H, W, F * C] of pictures [T, B, H, W, C] by their definition; mask [T, B] of the rows."""
    stacks = np.empty((*picture.shape[:-1], FRAMES * picture.shape[-1]), picture.dtype)
    for b in range(picture.shape[1]):
        start = 0
        for t in range(len(picture)):
            if t and not mask[t - 1, b]:
                start = t
            shown = [picture[max(start, t - back), b] for back in reversed(range(FRAMES))]
            stacks[t, b] = np.concatenate(shown, -1)
    return stacks


def random_pictures(rng, steps, envs):
    """A trajectory with episode ends whose observations are stacks."""
    trajectory = random_rows(rng, steps, envs)
    picture = rng.integers(0, 256, (steps + 1, envs, 2, 3, CHANNELS), np.uint8)
    mask = np.concatenate([trajectory.mask.numpy(), np.ones([1, envs])])
    return trajectory._replace(observation=tf.constant(stacked(picture, mask)))


def pair(kind, *, envs=2, length=4, state=(), **hparams):
    """Two memories of a kind: pictures once each, and whole stacks."""
    options = make_hparams(**hparams) if kind != "sequence" else types.SimpleNamespace(**hparams)
    return [
        get_memory(kind)(spec(envs=envs, length=length, frames=frames, state=state), options)
        for frames in (FRAMES, 1)
    ]


def assert_same(found, expected):
    for x, y in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def test_stacks_at_an_episodes_start_repeat_its_first_picture():
    ring = Ring(spec(spaces.Box(0, 255, (1, 1, 3), np.uint8), envs=1), rows=10)
    # Pictures 1 2 3 | 4 5: the third is the last of its episode, and the row that holds it an autoreset step.
    shown = [[1, 1, 1], [1, 1, 2], [1, 2, 3], [4, 4, 4], [4, 4, 5]]
    observation = np.array([*shown, [0, 0, 0]], np.uint8)[:, None, None, None, :]
    ring.add(rows(0, ".Tr..")._replace(observation=tf.constant(observation)))
    found = ring.observation(tf.range(5)).numpy()[:, 0, 0]
    np.testing.assert_array_equal(found, shown)
    assert ring.variables["observation"].shape == (10, 1, 1, 1)
    np.testing.assert_array_equal(ring.variables["observation"].numpy()[:5, 0, 0, 0], [1, 2, 3, 4, 5])


@pytest.mark.parametrize("n_step", [3, *rest(1)])
@pytest.mark.parametrize("kind", ["prioritized", *rest("uniform")])
def test_every_transition_that_can_be_sampled_is_that_of_whole_stacks(kind, n_step, compiled):
    capacity, envs = 12 * 2, 2
    memory, naive = pair(kind, envs=envs, replay_capacity=capacity, n_step=n_step)
    add = [compiled(each.add) for each in (memory, naive)]
    read = [compiled(each.transitions) for each in (memory, naive)]
    trajectory = random_pictures(np.random.default_rng(0), 40, envs)
    seen = 0
    for part in split_rows(trajectory, [4] * 10):  # around the ring three times
        for each in add:
            each(part)
        memory.check_valid()
        ring = memory.ring
        usable = int(memory.size()) // envs
        oldest = int(ring.position) - int(ring.filled) + int(ring.incomplete)
        place = (oldest + np.arange(usable)) % ring.rows
        place = (place[:, None] * envs + np.arange(envs)).reshape(-1)
        place = np.resize(place, 2 * capacity) if len(place) else np.zeros(2 * capacity, int)
        arguments = tf.constant(place, tf.int32), tf.ones([len(place)]), tf.ones([len(place)])
        assert_same(read[0](*arguments), read[1](*arguments))
        seen += usable
    assert seen > 50


@pytest.mark.parametrize("kind", ["uniform", "prioritized"])
def test_memory_and_priorities_agree_where_rollouts_do_not_divide_the_ring(kind):
    memory, _ = pair(kind, envs=1, length=4, replay_capacity=13)
    for part in split_rows(random_pictures(np.random.default_rng(5), 40, 1), [4] * 10):
        memory.add(part)
        memory.check_valid()  # compares them, and raises
        ring = memory.ring
        usable = int(ring.filled) - memory.n_step - int(ring.incomplete)
        assert int(memory.size()) == max(usable, 0)
        if kind == "prioritized":
            assert np.count_nonzero(memory.tree.leaves()) <= int(memory.size())


def test_a_full_memory_samples_no_stack_that_lost_a_picture():
    memory, _ = pair("uniform", envs=1, length=4, replay_capacity=12, batch_size=200)
    trajectory = random_pictures(np.random.default_rng(1), 28, 1)
    for part in split_rows(trajectory, [4] * 7):
        memory.add(part)
    newest = (28 - 1) % 12
    forbidden = {newest} | {(newest + 1 + i) % 12 for i in range(FRAMES - 1)}
    batch = memory.sample(tf.constant([3, 4]), 0)
    drawn = set(batch.index.numpy()[batch.mask.numpy() > 0].tolist())
    assert drawn and not drawn & forbidden
    assert int(memory.size()) == 12 - 1 - (FRAMES - 1)


@pytest.mark.parametrize("kind", ["uniform", "prioritized"])
def test_before_it_is_full_the_oldest_pictures_can_be_sampled(kind):
    memory, _ = pair(kind, envs=1, length=4, replay_capacity=12, batch_size=64)
    memory.add(
        rows(0, "....")._replace(observation=random_pictures(np.random.default_rng(2), 4, 1).observation)
    )
    batch = memory.sample(tf.constant([3, 4]), 0)
    assert 0 in batch.index.numpy().tolist() and int(memory.size()) == 3


def test_sequences_are_those_of_whole_stacks():
    hparams = dict(
        replay_capacity=24, min_replay_size=1, batch_size=40, burn_in=2, unroll_length=4, gamma=0.9,
        train_steps=100, prioritized=True, priority_exponent=0.5, importance_sampling_exponent=0.4,
        importance_sampling_exponent_end=1.0, priority_epsilon=1e-6,
    )  # fmt: skip
    state = (tf.zeros([2, 3]),)
    memory, naive = pair("sequence", envs=2, length=3, state=state, **hparams)
    trajectory = random_pictures(np.random.default_rng(3), 36, 2)
    for i, part in enumerate(split_rows(trajectory, [3] * 12)):
        for each in (memory, naive):
            each.add(part._replace(recurrent_state=(tf.fill([2, 3], float(i)),)))
        memory.check_valid()
        if int(memory.size()):
            batch = memory.sample(tf.constant([i, 0]), 0)
            assert batch.mask.numpy().all()
            assert_same(memory._sequences(batch.index), naive._sequences(batch.index))
    assert int(memory.size()) == int(naive.size()) - 2 * 3  # a rollout, whose first stacks are not whole


def test_a_million_atari_frames_fit_into_the_room_for_one_picture_each():
    space = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    ring = Ring(MemorySpec(space, spaces.Discrete(6), 8, 16, (), 4), rows=100)
    size = sum(each.dtype.size * int(np.prod(each.shape)) for each in ring.variables.values())
    assert size / (100 * 8) * 1_000_000 <= 7.3e9


def test_parts_that_are_no_pictures_are_stored_whole():
    space = spaces.Dict(
        {"observation": PICTURE, "previous": spaces.Box(-1.0, 1.0, (4,)), "last": spaces.Discrete(3)}
    )
    ring = Ring(spec(space, envs=1), rows=6)
    values = {
        "observation": np.arange(7 * 36).reshape(7, 1, 2, 3, 6).astype(np.uint8),
        "previous": np.random.default_rng(0).normal(size=(7, 1, 4)).astype(np.float32),
        "last": np.arange(7)[:, None] % 3,
    }
    ring.add(rows(0, "......")._replace(observation=tf.nest.map_structure(tf.constant, values)))
    found = ring.observation(tf.range(6))
    np.testing.assert_array_equal(found["previous"], values["previous"][:6, 0])
    np.testing.assert_array_equal(found["last"], values["last"][:6, 0])
    np.testing.assert_array_equal(
        found["observation"][..., -CHANNELS:], values["observation"][:6, 0, ..., -CHANNELS:]
    )


def test_a_memory_too_small_for_the_stacks_says_what_it_needs():
    with pytest.raises(UsageError, match="need 16 or more"):  # (4 + 1 + 1 + 2) rows of 2
        pair("uniform", envs=2, length=4, replay_capacity=15)
