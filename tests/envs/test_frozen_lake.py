"""FrozenLake in-graph against Gymnasium's own, whose table of transitions says what each step can lead to."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.envs.toy_text.frozen_lake import MAPS

from rl.envs import make_env, make_gym_env
from rl.errors import UsageError
from rl.ops import random

DRAWN = 3_000  # copies of each state and action, where ice is slippery


@pytest.mark.parametrize("slippery", [False, True])
def test_every_step_from_everywhere_is_gymnasiums(slippery):
    original = gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=slippery).unwrapped
    copies = DRAWN if slippery else 1
    running = [s for s, row in original.P.items() if row[0] != [(1.0, s, 0, True)]]  # else: the end
    places = np.repeat(running, 4 * copies).astype(np.int32)
    actions = np.tile(np.repeat(np.arange(4, dtype=np.int32), copies), len(running))
    options = {"desc": MAPS["8x8"], "is_slippery": slippery}
    env = make_env("FrozenLake12x12-v0", "graph", len(places), options)
    assert env.observation_space == original.observation_space
    assert env.action_space == original.action_space
    found = env.dynamics(tf.constant(places), tf.constant(actions), random.key(0))
    following, reward, terminated = (each.numpy().reshape(-1, 4, copies) for each in found)
    for i, place in enumerate(running):
        for action in range(4):
            expected: dict[tuple[int, float, bool], float] = {}
            for probability, state, paid, ended in original.P[place][action]:
                expected[state, paid, ended] = expected.get((state, paid, ended), 0.0) + probability
            rows = zip(*(each[i, action].tolist() for each in (following, reward, terminated)), strict=True)
            seen = list(rows)
            assert set(seen) == set(expected)
            for outcome, probability in expected.items():
                assert seen.count(outcome) / copies == pytest.approx(probability, abs=0.05)


def test_only_the_shortest_way_is_short_enough():
    env, original = make_env("FrozenLake12x12-v0", "auto", 2), make_gym_env("FrozenLake12x12-v0")
    assert env.backend == "graph"
    assert env.max_episode_steps == original.spec.max_episode_steps == 22
    assert env.observation_space == original.observation_space
    state, _ = env.reset(random.key(0))
    original.reset(seed=0)
    ways = np.array([11 * [1] + 11 * [2], [0] + 11 * [2] + 10 * [1]])  # the second begins against the wall
    for t in range(22):
        state, found = env.step(state, tf.constant(ways[:, t]), random.key(t))
        observation, reward, terminated, truncated, _ = original.step(ways[0, t])
        ours = [each.numpy()[0] for each in found]
        assert ours == [observation, reward, terminated, truncated]
    np.testing.assert_array_equal(found.observation, [143, 131])
    np.testing.assert_array_equal(found.reward, [1.0, 0.0])
    np.testing.assert_array_equal(found.terminated, [True, False])


@pytest.mark.parametrize("desc", [["SF", "G"], ["SF", "FF"], ["SX", "FG"]])
def test_maps_that_are_none_are_refused(desc):
    with pytest.raises(UsageError, match="desc needs rows of equal length"):
        make_env("FrozenLake12x12-v0", "graph", 1, {"desc": desc})
