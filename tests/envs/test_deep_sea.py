"""DeepSea against episodes worked by hand from bsuite's rules."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.envs import make_env, make_gym_env
from rl.errors import UsageError
from rl.ops import random

# numpy's RandomState(42).binomial(1, 0.5, [3, 3]), as bsuite draws which action leads right in each cell.
MAPPING = [[0, 1, 1], [1, 0, 0], [0, 1, 1]]
C = 0.01 / 3


@pytest.mark.parametrize(
    ("actions", "cells", "rewards"),
    [
        ([0, 0, 1], [4, 8, None], [-C, -C, 1.0 - C]),  # right three times: the treasure, 0.99 together
        ([1, 0, 1], [3, 6, None], [0.0, 0.0, 0.0]),  # left against the wall: nothing costs, nothing earns
        ([0, 0, 0], [4, 8, None], [-C, -C, 0.0]),  # beside the treasure, one left
    ],
)
def test_an_episode_is_what_bsuites_rules_make_of_it(actions, cells, rewards):
    env, own = make_env("DeepSea-v0", "graph", 1, {"size": 3}), make_gym_env("DeepSea-v0", {"size": 3})
    np.testing.assert_array_equal(own.unwrapped.right, MAPPING)
    state, first = env.reset(random.key(0))
    np.testing.assert_array_equal(first.observation, np.eye(9)[:1])
    np.testing.assert_array_equal(own.reset()[0], np.eye(9)[0])
    for i, (action, cell, reward) in enumerate(zip(actions, cells, rewards, strict=True)):
        state, found = env.step(state, tf.constant([action]), random.key(1))
        observation, own_reward, terminated, truncated, _ = own.step(action)
        expected = np.zeros(9) if cell is None else np.eye(9)[cell]  # nothing is seen on the ground
        np.testing.assert_array_equal(found.observation[0], expected)
        np.testing.assert_array_equal(observation, expected)
        np.testing.assert_allclose([found.reward[0], own_reward], reward, atol=1e-7)
        assert bool(found.terminated[0]) == terminated == (i == 2)
        assert not truncated


def test_a_grid_of_one_is_refused():
    with pytest.raises(UsageError, match="at least 2, not 1"):
        make_env("DeepSea-v0", "graph", 1, {"size": 1})
