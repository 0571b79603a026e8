"""Episodes of random numbers, of every kind of space that a data set may have."""

from __future__ import annotations

import numpy as np
import optree
from gymnasium import spaces

from rl.data.hdf5 import Episode
from rl.data.spaces import map_parts

MANY = spaces.Dict(
    {
        "place": spaces.Box(-1.0, 1.0, (3,), np.float32),
        "pair": spaces.Tuple((spaces.Discrete(5), spaces.Box(-np.inf, np.inf, (2, 2), np.float64))),
        "switches": spaces.MultiBinary(4),
    }
)
SPACES = {
    "discrete": (spaces.Box(-5.0, 5.0, (4,), np.float32), spaces.Discrete(3)),
    "box": (spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Box(-2.0, 2.0, (1,), np.float32)),
    "multi_discrete": (spaces.Discrete(7), spaces.MultiDiscrete([3, 4])),
    "nested": (MANY, spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0.0, 1.0, (2,), np.float32)})),
    "picture": (spaces.Box(0, 255, (36, 40, 3), np.uint8), spaces.Discrete(2, start=1)),
}


def episodes(observations, actions, lengths=(5, 1, 9), seed=0, reward_dtype=np.float32):
    """Episodes of these lengths; each second one is truncated, the others terminate."""
    generator = np.random.default_rng(seed)
    for space in (observations, actions):
        space.seed(seed)
    made = []
    for i, length in enumerate(lengths):
        last = np.arange(length) == length - 1

        def drawn(space, count):
            samples = [space.sample() for _ in range(count)]
            return map_parts(lambda each, *rows: np.asarray(rows, each.dtype), space, *samples)

        reward = generator.normal(size=length).astype(reward_dtype)
        flags = last & (i % 2 == 0), last & (i % 2 == 1)
        made.append(Episode(drawn(observations, length + 1), drawn(actions, length), reward, *flags))
    return made


def leaves(nest):
    """The arrays of a nest."""
    return optree.tree_leaves(nest)


def assert_equal(found, expected):
    """That all columns of two data sets are the same, to the bit."""
    for name in ("observation", "action", "reward", "terminated", "truncated", "lengths"):
        pairs = zip(leaves(getattr(found, name)), leaves(getattr(expected, name)), strict=True)
        for one, other in pairs:
            assert one.dtype == other.dtype and one.shape == other.shape, name
            assert one.tobytes() == other.tobytes(), name
