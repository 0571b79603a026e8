"""Columns kept beside a data set: the same to the bit, and never those of other files."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from gymnasium import spaces

from rl.data import cache, stored
from rl.data.dataset import Dataset, read, write
from rl.data.hdf5 import Episode

SEEN = spaces.Dict({"a": spaces.Box(-1.0, 1.0, (2,), np.float64), "b": spaces.Discrete(5)})
ACTS = spaces.Discrete(3, start=2)


def data(seed=0, episodes=4, log_prob=True):
    rng = np.random.default_rng(seed)

    def one(i):
        n = int(rng.integers(1, 5))
        seen = {"a": rng.uniform(-1.0, 1.0, (n + 1, 2)), "b": rng.integers(0, 5, n + 1)}
        ends = np.arange(n) == n - 1
        known = rng.normal(size=n).astype(np.float32) if log_prob and i else None
        about = {"step": i, "return": 0.5}
        return Episode(seen, rng.integers(2, 5, n), rng.normal(size=n), ends, ends & False, about, known)

    return Dataset.of([one(i) for i in range(episodes)], SEEN, ACTS, {"env_id": "Test-v0"})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "EPISODES", 3)
    write(tmp_path / "data", data())
    return tmp_path / "data"


def same(one, other):
    for field in dataclasses.fields(Dataset):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if field.name == "observation":
            assert mine.keys() == theirs.keys()
            pairs = [(mine[key], theirs[key]) for key in mine]
        else:
            pairs = [(mine, theirs)]
        for a, b in pairs:
            if isinstance(a, np.ndarray):
                assert a.dtype == b.dtype
                np.testing.assert_array_equal(a, b)
            else:
                assert a == b


def test_what_is_kept_is_what_was_read_and_the_episodes_are_not_opened_again(folder, monkeypatch):
    first = read(folder)
    assert (folder / "data" / cache.CACHE).exists()
    assert first.action.max() == 2 and np.isnan(first.log_prob[: first.lengths[0]]).all()

    def refuse(*_):
        raise AssertionError("the episodes were read again")

    with monkeypatch.context() as patched:
        patched.setattr(stored, "stored", refuse)
        same(read(folder), first)
    exact = read(folder, exact=True)
    assert exact.observation["a"].dtype == np.float64 and exact.action.max() == 4


def test_other_episodes_are_read_and_kept_in_their_place(folder):
    before = read(folder)
    write(folder, data(seed=1, episodes=6), force=True)
    found = read(folder)
    assert len(found.lengths) == 6 and len(before.lengths) == 4
    same(read(folder), found)


@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "foreign"])
def test_what_is_damaged_is_made_anew(folder, harm):
    first, path = read(folder), folder / "data" / cache.CACHE
    whole = path.read_bytes()
    if harm == "foreign":
        np.savez(
            path, state=np.frombuffer(cache.state(folder / "data").encode(), np.uint8), reward=np.zeros(3)
        )
    else:
        place = whole.index(first.reward.tobytes())
        flipped = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        path.write_bytes({"cut": whole[: len(whole) // 2], "flip": flipped, "empty": b""}[harm])
    same(read(folder), first)
    same(read(folder), first)


def test_nothing_is_kept_of_few_episodes_of_long_ones_or_where_one_is_damaged(folder, monkeypatch):
    path = folder / "data" / cache.CACHE
    with monkeypatch.context() as patched:
        patched.setattr(cache, "EPISODES", 5)
        read(folder)
        patched.setattr(cache, "EPISODES", 3)
        patched.setattr(cache, "BYTES", 8)
        read(folder)
        assert not path.exists()
    import h5py

    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        del file["episode_2/rewards"]
    assert len(read(folder).lengths) == 3 and not path.exists()
