"""BitFlip against episodes worked by hand from the paper's rules, and its two forms against each other."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.envs import make_env, make_gym_env
from rl.envs.graph.base import GraphState
from rl.envs.graph.bit_flip import BitFlipPhysics
from rl.errors import UsageError
from rl.ops import random

START, GOAL = [0, 1, 1], [1, 1, 0]


@pytest.mark.parametrize(
    ("actions", "states", "reached"),
    [
        ([0, 2], [[1, 1, 1], [1, 1, 0]], True),
        ([2, 0], [[0, 1, 0], [1, 1, 0]], True),
        ([1, 0, 2], [[0, 0, 1], [1, 0, 1], [1, 0, 0]], False),  # one bit is wrong when the episode is cut
        ([1, 1, 0], [[0, 0, 1], [0, 1, 1], [1, 1, 1]], False),
    ],
)
def test_an_episode_is_what_the_papers_rules_make_of_it(actions, states, reached):
    env, own = make_env("BitFlip-v0", "graph", 1, {"bits": 3}), make_gym_env("BitFlip-v0", {"bits": 3})
    own.reset(seed=0)
    own.unwrapped.state = np.array([START, GOAL], np.int8)
    physics = BitFlipPhysics(tf.constant([START]), tf.constant([GOAL]))
    state = GraphState(physics, tf.constant([0]), tf.constant([False]))
    for i, (action, expected) in enumerate(zip(actions, states, strict=True)):
        state, found = env.step(state, tf.constant([action]), random.key(i))
        observation, *rest, _ = own.step(action)
        last = i == len(actions) - 1
        assert rest == [0.0 if reached and last else -1.0, reached and last, last and i == 2]
        assert rest == [float(found.reward[0]), bool(found.terminated[0]), bool(found.truncated[0])]
        for shown in (observation, tf.nest.map_structure(lambda x: x[0].numpy(), found.observation)):
            np.testing.assert_array_equal(shown["observation"], expected)
            np.testing.assert_array_equal(shown["achieved_goal"], expected)
            np.testing.assert_array_equal(shown["desired_goal"], GOAL)


def test_both_forms_are_the_same_step_by_step():
    """From the same bits, over random actions of many episodes; what a reset draws is not compared."""
    env, originals = make_env("BitFlip-v0", "graph", 8, {"bits": 4}), []
    for _ in range(8):
        originals.append(make_gym_env("BitFlip-v0", {"bits": 4}))
        originals[-1].reset(seed=0)
    step = tf.function(env.step, autograph=False)
    rng, (state, _), seen = np.random.default_rng(0), env.reset(random.key(0)), np.zeros(3, int)
    for t in range(100):
        before, action = tf.nest.map_structure(np.asarray, state), rng.integers(4, size=8)
        state, found = step(state, tf.constant(action), random.fold_in(random.key(1), t))
        found = tf.nest.map_structure(np.asarray, found)
        for i, original in enumerate(originals):
            told = float(found.reward[i]), bool(found.terminated[i]), bool(found.truncated[i])
            if before.episode_end[i]:
                original.reset()
                assert told == (0.0, False, False)
                continue
            original.unwrapped.state = np.array([x[i] for x in before.physics], np.int8)
            observation, *rest, _ = original.step(int(action[i]))
            assert tuple(rest) == told
            for name, part in observation.items():
                np.testing.assert_array_equal(part, found.observation[name][i])
            seen += [rest[1] and not rest[2], rest[1] and rest[2], rest[2] and not rest[1]]
    assert (seen > 3).all()  # ends at the goal, with the last step too, and without


def test_a_shorter_limit_cuts_sooner_and_a_longer_one_does_not():
    for limit, length in ((2, 2), (9, 3)):
        env = make_env("BitFlip-v0", "graph", 1, {"bits": 3}, limit)
        own = make_gym_env("BitFlip-v0", {"bits": 3}, max_episode_steps=limit)
        assert env.max_episode_steps == length
        own.reset(seed=0)
        own.unwrapped.state = np.array([START, [0, 1, 0]], np.int8)
        assert [own.step(1)[3] for _ in range(length)] == [False] * (length - 1) + [True]


def test_no_bits_are_refused():
    with pytest.raises(UsageError, match="at least 1 bit, not 0"):
        make_env("BitFlip-v0", "graph", 1, {"bits": 0})
